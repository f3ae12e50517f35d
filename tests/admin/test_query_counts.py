"""No page asks once for each row: every page there is, of every table on the site, with few rows and with many.

The pages are those that the site's own addresses name: a new one is asked for without being listed here, and a
table without a builder for its rows fails the test.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from django_mq import models
from django_mq.acts.models import Act
from django_mq.alerts.models import AlertNotice, RecordedAlert
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.receiver_state import ReceiverState
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult
from django_mq.workflows.models import WorkflowRun
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import Model
    from django.test import Client

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD, PARKED = models.Message.Status
PAGES = [model for model in admin.site._registry if model._meta.app_label == "django_mq"]


def a_queue(make: Make, number: int) -> Any:
    takes = models.Queue.objects.filter(name="letters").first() or make.queue("letters")
    return make.queue(f"queue-{number}", dead_letter_queue=takes, paused=bool(number % 2))


def a_message(make: Make, number: int) -> Any:
    state = list(models.Message.Status)[number % 4]
    message = make.message(
        state,
        a_queue(make, number),
        type=f"type {number}",
        correlation_id=f"task {number}",
        dead_reason=f"E{number}" if state == DEAD else "",
        session=make.session(f"worker {number}") if state == CLAIMED else None,
    )
    make.attempt(message_id=message.message_id, error=f"E{number}", worker=f"worker {number}")
    return message


def a_session(make: Make, number: int) -> Any:
    session = make.session(f"worker {number}", late=bool(number % 2))
    for queue in range(number + 1):
        make_consumer(session, queue)
    return session


def make_consumer(session: Any, number: int) -> Any:
    name = f"queue-{number}"
    return models.Consumer.objects.create(session=session, queue_name=name, credit_limit=20, credit_used=3)


def a_result(number: int) -> Any:
    end = timezone.now()
    times = dict.fromkeys(("started_at", "last_attempted_at", "finished_at"), end)
    record = {"envelope": {"task": f"shop.{number}", "args": [], "kwargs": {}}, "worker_ids": ["a"], "errors": []}
    given = {"message_id": uuid4(), "successful": True, "queue_name": "q", "record": json.dumps(record)}
    return models.TaskResult.objects.create(**given, **times, expires_at=end + timedelta(days=number + 1))


def a_failure_group(make: Make, number: int) -> Any:
    group = make.failure_group(f"E{number}")
    models.FailureTally.objects.create(group=group, begins_at=timezone.now(), failures=7)
    attempt = make.attempt(error=f"E{number}")
    models.GroupedFailure.objects.create(attempt_id=attempt.pk, group=group, failed_at=attempt.failed_at)
    return group


def an_operation(number: int) -> Any:
    now = timezone.now()
    given = {"act": "cancel", "user_name": f"user {number}", "newest": 0, "status": "done"}
    return models.Operation.objects.create(**given, created_at=now, beat_at=now, filters={"queue": "q"})


def a_periodic_message(_: Make, number: int) -> Any:
    given = {"queue": "q", "cron": "0 3 * * *", "created_at": timezone.now()}
    row = PeriodicMessage.objects.create(name=f"report {number}", **given)
    for day in range(number + 1):
        PeriodicRun.objects.create(periodic=row, due_at=timezone.now() + timedelta(days=day), message_id=uuid4())
    return row


def a_workflow(_: Make, number: int) -> Any:
    id_ = uuid4()
    names = [f"step {place}" for place in range(3 * number + 1)]
    graph = json.dumps([{"name": name, "queue": "q"} for name in names])
    given = {"name": f"flow {number}", "version": "a", "graph": graph, "input": "1", "root": id_}
    run = WorkflowRun.objects.create(id=id_, **given, state="running", created_at=timezone.now())
    for name in names:
        step = run.steps.create(name=name, state="ready", message_id=uuid4(), items=1)
        run.steps.create(name=name, number=0, state="ready", message_id=uuid4())
        child = {**given, "id": uuid4(), "parent": step, "created_at": timezone.now()}
        WorkflowRun.objects.create(**child, state="running")
    return run


def a_unique_key(make: Make, number: int) -> Any:
    message = make.message(READY, make.queue(f"queue-{number}"))
    given = {"digest": f"{number:064x}", "label": f"key {number}", "until": "finished", "owner": str(message.pk)}
    return models.UniqueKey.objects.create(**given, message_id=message.message_id, first_at=timezone.now())


def a_stored_result(make: Make, number: int) -> Any:
    message_id = make.history().message_id
    given = {"content_type": "application/json", "content_encoding": "utf-8", "result": "[1]"}
    return StoredResult.objects.create(task_id=f"t{number}", status="SUCCESS", message_id=message_id, **given)


def a_chord(number: int) -> Any:
    ChordMember.objects.create(group_id=f"g{number}", task_id=f"t{number}", status="SUCCESS")
    return Chord.objects.create(group_id=f"g{number}", size=2, counted=1)


def a_saved_group(number: int) -> Any:
    members = json.dumps({"result": [[f"g{number}", None], [[[f"t{number}", None], None]]]})
    return ResultGroup.objects.create(group_id=f"g{number}", members=members, content_type="application/json")


def an_hour(number: int) -> Any:
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    name, day = f"queue-{number}", now.date()
    models.InsightCause.objects.create(queue_name=name, day=day, dead=True, reason="boom", messages=1)
    return models.InsightHour.objects.create(queue_name=name, hour=now, arrivals=3, wait_p95=1.0)


def a_batch(number: int) -> Any:
    given = {"state": models.ArchiveBatch.State.PURGED, "root": "/srv", "path": f"/srv/{number}"}
    now = timezone.now()
    return models.ArchiveBatch.objects.create(
        **given, first_id=number, last_id=number, cutoff=now, planned_at=now, days={"2026-03-02": ["1", "2"]}
    )


def a_job(number: int) -> Any:
    now = timezone.now()
    job = models.BulkJob.objects.create(key=f"load {number}", parts=2, started_at=now)
    for part in range(number + 1):
        models.BulkPart.objects.create(job=job, part=part, rows=1, checksum="1", committed_at=now)
    return job


def a_durable_event(make: Make, number: int) -> Any:
    row, now = DurableEvent.objects.create(name="paid", key=str(number), waited_at=timezone.now()), timezone.now()
    for _ in range(number + 1):
        of_message = {"message_id": make.message().message_id, "queue_name": "orders", "place": 0}
        DurableStep.objects.create(**of_message, kind="wait", outcome="open", event=row, recorded_at=now)
    return row


def a_message_batch(make: Make, number: int) -> Any:
    now, key = timezone.now(), uuid4()
    row = MessageBatch.objects.create(id=key, name=f"import {number}", created_at=now, counted_at=now)
    for _ in range(number + 1):
        letter = make.message(DEAD, dead_at=now)
        BatchMember.objects.create(
            id=uuid4(), batch=row, state=2, message_id=letter.message_id, queue_name="orders"
        )
    return row


#: How a row of each table is written, with what a page shows of other tables beside it.
def an_alert(_: Make, number: int) -> Any:
    now = timezone.now()
    given = {"cause": "late", "about": f"queue {number}", "level": "problem", "sentence": "It is late."}
    row = RecordedAlert.objects.create(**given, began_at=now, seen_at=now)
    AlertNotice.objects.create(alert=row, target="ops", news="began", sent_at=now)
    return row


def an_act(make: Make, number: int) -> Any:
    given = {"user_name": "operator", "model": "message", "name": "move", "about": f"queue {number}"}
    row = Act.objects.create(**given, began_at=timezone.now(), criterion={"filters": {"queue": "orders"}})
    for _ in range(number + 1):
        message = make.message()
        row.messages.create(message_id=message.message_id, came_from="a", went_to="orders", row_id=message.pk)
    return row


ROWS: dict[str, Callable[[Make, int], Any]] = {
    "Queue": a_queue,
    "Binding": lambda make, number: models.Binding.objects.create(
        exchange=f"e{number}", pattern="#", exchange_type="topic", queue=a_queue(make, number)
    ),
    "Message": a_message,
    "WorkerSession": a_session,
    "Consumer": lambda make, number: make_consumer(make.session(f"worker {number}"), number),
    "History": lambda make, number: make.history(type=f"t{number}", session_id=make.session(f"w{number}").pk),
    "Attempt": lambda make, number: make.attempt(error=f"E{number}", worker=f"w{number}"),
    "FailureGroup": a_failure_group,
    "SnoozedAlert": lambda make, number: make.snoozed_alert(about=f"queue-{number}"),
    "StagedRedrive": lambda make, _: make.staged_redrive(),
    "TaskResult": lambda _, number: a_result(number),
    "StoredResult": a_stored_result,
    "Chord": lambda _, number: a_chord(number),
    "ResultGroup": lambda _, number: a_saved_group(number),
    "Operation": lambda _, number: an_operation(number),
    "PeriodicMessage": a_periodic_message,
    "MessageBatch": a_message_batch,
    "DurableEvent": a_durable_event,
    "RecordedAlert": an_alert,
    "WorkflowRun": a_workflow,
    "BridgeLink": lambda _, number: BridgeLink.objects.create(
        bridge=f"bridge {number}", worker="w", state="away", since=timezone.now(), seen_at=timezone.now()
    ),
    "ReceiverState": lambda _, number: ReceiverState.objects.create(name=f"receiver {number}"),
    "Act": an_act,
    "UniqueKey": a_unique_key,
    "InsightHour": lambda _, number: an_hour(number),
    "ArchiveBatch": lambda _, number: a_batch(number),
    "BulkJob": lambda _, number: a_job(number),
    "LimitException": lambda _, number: models.LimitException.objects.create(
        queue_name="q", limit_name="default", limited_key=f"k{number}", amount=1, seconds=1
    ),
}


def addresses(model: type[Model], row: Any) -> Iterator[str]:
    """Yield every page of a table, and every page of one of its rows."""
    for pattern in admin.site._registry[model].get_urls():
        for arguments in ([], [row.pk]):
            try:
                if pattern.name:
                    yield reverse(f"admin:{pattern.name}", args=arguments)
            except NoReverseMatch:
                continue


def statements(client: Client, address: str) -> list[str]:
    client.get(address)  # what is asked for once and remembered
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
        if response.streaming:
            b"".join(response.streaming_content)
    assert response.status_code in {200, 302, 403, 404, 405}, address
    return [query["sql"] for query in captured.captured_queries]


@pytest.mark.django_db
@pytest.mark.parametrize("model", PAGES, ids=lambda model: model.__name__)
def test_every_page_takes_as_many_statements_for_many_rows(browse: Client, make: Make, model: type[Model]) -> None:
    write = ROWS[model.__name__]
    rows = [write(make, number) for number in range(4)]
    few = {address: statements(browse, address) for address in addresses(model, rows[0])}
    for number in range(4, 12):
        write(make, number)

    many = {address: statements(browse, address) for address in few}

    grown = {address: many[address] for address in few if len(many[address]) > len(few[address])}
    assert few
    assert grown == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "query", ["state=3", "state=letters", "queue=queue-1", "type=none", "error=E1", "reason=E3"]
)
def test_every_filter_takes_as_many_statements_for_many_rows(browse: Client, make: Make, query: str) -> None:
    for number in range(4):
        a_message(make, number)
    few = statements(browse, f"{list_of('message')}?{query}")
    for number in range(4, 12):
        a_message(make, number)

    assert len(statements(browse, f"{list_of('message')}?{query}")) <= len(few)
