"""A row of each table that the admin shows, with the same text in every field that takes any text."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.contrib import admin
from django.db import models
from django.utils import timezone

from django_mq.models import (
    ArchiveBatch,
    Binding,
    BulkJob,
    Consumer,
    InsightHour,
    LimitException,
    Message,
    Operation,
    Queue,
    TaskResult,
    UniqueKey,
)
from django_mq.periodic.models import PeriodicMessage
from django_mq.workflows.models import WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.admin.conftest import Make

#: Text fields with a form of their own, which no publisher, worker or operator can fill with anything else.
FORMED = frozenset(
    {
        *("content_type", "content_encoding", "kind", "door", "model", "cron", "tz", "fingerprint", "record"),
        *("exchange_type", "digest", "until", "act", "cause", "level", "status", "conduct", "state", "graph"),
    }
)
#: Objects with any text as a key.
OBJECTS = frozenset({"headers", "queues", "types", "workers", "tenants", "versions"})
#: The text fields of a queue that are no options.
OF_QUEUES = frozenset({"name", "paused_reason"})


def pages() -> dict[str, Any]:
    """Return the pages of django_mq on the site, by the names of their tables."""
    return {
        model._meta.model_name: page
        for model, page in admin.site._registry.items()
        if model._meta.app_label == "django_mq" and model._meta.model_name
    }


def every_row(make: Make, text_of: Callable[[str], str]) -> dict[str, Any]:
    """Write a row of each table, with the text of the table in its fields; return the rows by their tables."""
    from django_mq.acts.models import Act
    from django_mq.alerts.models import RecordedAlert
    from django_mq.batches.models import MessageBatch
    from django_mq.bridges.models import BridgeLink
    from django_mq.bridges.receiver_state import ReceiverState
    from django_mq.durable.models import DurableEvent
    from django_mq.results.models import Chord, ResultGroup, StoredResult

    now = timezone.now()
    session = make.session(running=[[1, 1, text_of("workersession"), 9.0]])
    orders, kept = make.queue(), make.queue("kept", paused=True)
    keyed = {"label": "a", "until": "finished", "owner": "1", "message_id": uuid4(), "first_at": now}
    message = make.message(Message.Status.DEAD, orders, dead_at=now)
    found = [
        kept,
        message,
        session,
        Consumer.objects.create(session=session, queue_name="orders"),
        Binding.objects.create(queue=orders, exchange="sales", exchange_type="topic"),
        make.history(message_id=message.message_id),
        make.attempt(message_id=message.message_id),
        make.failure_group(),
        make.staged_redrive(),
        make.snoozed_alert(),
        TaskResult.objects.create(
            message_id=message.message_id,
            successful=False,
            record="{}",
            finished_at=now,
            expires_at=now + timedelta(days=1),
        ),
        StoredResult.objects.create(task_id="t", message_id=message.message_id, done_at=now),
        Chord.objects.create(group_id="g", size=3, counted=1, failed=1),
        ResultGroup.objects.create(group_id="g"),
        UniqueKey.objects.create(digest="a" * 64, **keyed),
        Operation.objects.create(act="cancel", newest=1, created_at=now, beat_at=now),
        Act.objects.create(began_at=now, model="act", name="undo"),
        RecordedAlert.objects.create(cause="dead", level="alert", began_at=now, seen_at=now),
        BridgeLink.objects.create(bridge="rabbit", worker="w", state="away", since=now, error_at=now, seen_at=now),
        ReceiverState.objects.create(name="partner", state="away", since=now, last_at=now),
        PeriodicMessage.objects.create(name="report", cron="0 3 * * *", queue="orders", created_at=now),
        a_workflow(text_of("workflowrun")),
        LimitException.objects.create(queue_name="q", limit_name="api", limited_key="17", amount=50, seconds=1),
        InsightHour.objects.create(hour=now.replace(minute=0, second=0, microsecond=0), arrivals=3),
        ArchiveBatch.objects.create(first_id=1, last_id=2, cutoff=now, planned_at=now),
        BulkJob.objects.create(parts=1, started_at=now),
        MessageBatch.objects.create(id=uuid4(), created_at=now),
        DurableEvent.objects.create(name="paid", emitted_at=now, expires_at=now),
    ]
    rows = {str(row._meta.model_name): row for row in found}
    for name, row in rows.items():
        fill(row, text_of(name))
    assert sorted(rows) == sorted(pages())
    return rows


def a_workflow(text: str = "work") -> WorkflowRun:
    """Write a workflow that runs, with a step of this name."""
    id_, rule = uuid4(), {"name": text[:100], "queue": "orders"}
    given = {"name": "report", "version": "a", "graph": json.dumps([rule]), "input": "1", "root": id_}
    run = WorkflowRun.objects.create(
        id=id_, **given, open_steps=1, step_count=1, state="running", created_at=timezone.now()
    )
    run.steps.create(name=text[:100], state="ready", reason=text[:255], message_id=uuid4())
    return run


def fill(row: models.Model, text: str) -> None:
    """Write the text into each field of a row that takes any text."""
    for field in row._meta.concrete_fields:
        if field.name in FORMED or field.choices or field.primary_key:
            continue
        if isinstance(row, Queue) and field.name not in OF_QUEUES:
            continue
        if isinstance(field, models.CharField | models.TextField):
            setattr(row, field.name, text[: getattr(field, "max_length", None)])
        elif isinstance(field, models.BinaryField):
            setattr(row, field.name, text.encode(errors="replace"))
        elif field.name in OBJECTS and isinstance(getattr(row, field.name), dict | None):
            setattr(row, field.name, {text: 7})
    row.save()
