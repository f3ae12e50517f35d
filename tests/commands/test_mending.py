"""mq_pause, mq_resume, mq_redrive, mq_cancel and mq_prune: the operator's hand, without a browser."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F

from django_mq.api import publish, publish_many
from django_mq.delivery.operator import redrives
from django_mq.delivery.operator.queue_editor import create_queue
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import Attempt, History, Message, Queue
from django_mq.stores.records import ClaimRequest, Failure, SessionInfo, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")

STATUS = Message.Status
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


@pytest.fixture(autouse=True)
def two_queues(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


def settle(alias: str, queue: str, verdict: Verdict, *, credit: int = 100) -> None:
    """Claim what is ready and settle all of it so."""
    store = shared_store(alias)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    claimed = store.claims.claim(session, ClaimRequest(queues=(queue,), credit=credit)).claimed
    store.settlements.settle(session, [Settlement(one.id, one.claim, verdict, reason="broken") for one in claimed])


def ready(alias: str, queue: str) -> list[object]:
    rows = Message.objects.using(alias).filter(queue__name=queue, state=STATUS.READY)
    return [json.loads(bytes(row.body)) for row in rows.order_by("-level", "place", "id")]


def test_several_queues_are_paused_and_resumed_by_name(database: str, run: Run) -> None:
    run("mq_pause", "orders", "mails", "--reason", "stocktaking")

    paused = Queue.objects.using(database).filter(paused=True, paused_reason="stocktaking")
    assert paused.count() == 2
    run("mq_resume", "orders")
    assert paused.get().name == "mails"


@pytest.mark.parametrize("command", ["mq_pause", "mq_resume"])
def test_an_unknown_queue_leaves_all_as_they_are(database: str, run: Run, command: str) -> None:
    run("mq_pause", "mails")
    before = list(Queue.objects.using(database).order_by("name").values_list("name", "paused"))

    with pytest.raises(CommandError, match="no queue 'ordres'"):
        run(command, "orders", "mails", "ordres")

    assert list(Queue.objects.using(database).order_by("name").values_list("name", "paused")) == before


def test_dead_messages_become_ready_where_they_stand(database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(3)])
    settle(database, "orders", Verdict.DEAD)
    publish("orders", 3)

    printed = run("mq_redrive", "orders")

    assert ready(database, "orders") == [0, 1, 2, 3]
    assert printed == "3 messages redriven.\n  3 to 'orders'\n"


def test_a_dead_letter_queue_gives_back_to_where_they_came_from(database: str, run: Run) -> None:
    for name in ("one", "two"):
        create_queue(name, {"dead_letter_queue": "mails"}, using=database)
        publish(name, name)
        settle(database, name, Verdict.DEAD)
    publish("mails", "not a dead letter")

    assert run("mq_redrive", "one") == "0 messages redriven.\n  Its dead letters are in 'mails'.\n"
    back = json.loads(run("mq_redrive", "mails", "--json"))

    assert back == {"redriven": 2, "left": 0, "missing": [], "queues": {"one": 1, "two": 1}}
    assert ready(database, "one") == ["one"]
    assert ready(database, "mails") == ["not a dead letter"]


def test_all_of_them_may_go_elsewhere(database: str, run: Run) -> None:
    publish("orders", 1)
    settle(database, "orders", Verdict.DEAD)

    run("mq_redrive", "orders", "--to", "mails")

    assert ready(database, "mails") == [1]


def test_a_header_that_names_no_queue_leaves_the_message_where_it_is(database: str) -> None:
    publish("mails", 1, headers={"x-origin-queue": "'; drop table"})
    publish("mails", 2, headers={"x-origin-queue": 5})
    publish("mails", 3, headers={"x-origin-queue": "orders"})  # a publisher's own header makes no dead letter
    Message.objects.using(database).exclude(pk=Message.objects.latest("pk").pk).update(dead_reason="boom")

    out = io.StringIO()

    with pytest.raises(SystemExit, match="1"):
        call_command("mq_redrive", "mails", "--json", stdout=out)

    assert json.loads(out.getvalue()) == {"redriven": 0, "left": 2, "missing": [], "queues": {}}
    assert ready(database, "mails") == [1, 2, 3]


def test_more_than_a_batch_is_redriven_once_each(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrives, "BATCH", 2)
    publish_many([("orders", number) for number in range(5)])
    settle(database, "orders", Verdict.DEAD)

    assert json.loads(run("mq_redrive", "orders", "--json", "--limit", "3"))["queues"] == {"orders": 3}
    assert ready(database, "orders") == [0, 1, 2]


def test_a_dry_redrive_only_counts(database: str, run: Run) -> None:
    publish("orders", 1)
    settle(database, "orders", Verdict.DEAD)

    assert json.loads(run("mq_redrive", "orders", "--dry-run", "--json"))["would_be_redriven"] == 1
    assert ready(database, "orders") == []


def test_a_message_is_cancelled_by_its_id(database: str, run: Run) -> None:
    ids = publish_many([("orders", number) for number in range(3)])

    assert run("mq_cancel", ids[1]) == "1 message removed.\n"

    assert ready(database, "orders") == [0, 2]


def test_what_is_held_or_unknown_is_said_and_stays(database: str, run: Run) -> None:
    held, free = publish_many([("orders", 0), ("orders", 1)])
    store = shared_store(database)
    store.claims.claim(
        store.sessions.open(WORKER, deadline_seconds=60), ClaimRequest(queues=("orders",), credit=1)
    )
    unknown = uuid4()

    with pytest.raises(SystemExit) as ended:
        run("mq_cancel", held, free, unknown)

    assert ended.value.code == 1
    left = Message.objects.using(database).values_list("message_id", flat=True)
    assert list(left) == [held]


def test_a_dry_cancel_removes_nothing(database: str, run: Run) -> None:
    message_id = publish("orders", 1)

    said = json.loads(run("mq_cancel", message_id, "--dry-run", "--json"))

    assert said == {"would_be_removed": 1, "held": 0, "missing": [], "stopping": 0}
    assert ready(database, "orders") == [1]


def test_what_is_over_its_time_is_counted_and_deleted(database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(4)])
    settle(database, "orders", Verdict.ACCEPT)
    history = History.objects.using(database)
    old = list(history.values_list("pk", flat=True)[:3])
    history.filter(pk__in=old).update(finished_at=F("finished_at") - timedelta(days=8))

    assert json.loads(run("mq_prune", "--dry-run", "--json")) == {"would_delete": {"history": 3, "attempts": 0}}
    assert history.count() == 4
    assert json.loads(run("mq_prune", "--json")) == {"deleted": 3}
    assert history.count() == 1


def test_an_attempt_is_over_when_it_is_old_and_its_message_is_gone(database: str, run: Run) -> None:
    alive = publish("orders", 1)
    store = shared_store(database)
    for message_id in (alive, uuid4()):
        store.settlements.record_attempt(
            Failure("E"), queue_name="orders", number=1, worker="w", message_id=message_id
        )
    Attempt.objects.using(database).update(failed_at=F("failed_at") - timedelta(days=31))

    assert "1 failed attempts would be deleted" in run("mq_prune", "--dry-run")
    assert run("mq_prune") == "1 row deleted.\n"
