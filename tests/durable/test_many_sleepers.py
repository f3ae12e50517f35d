"""Ten thousand durable handlers that sleep or wait cost an idle fleet no statement, and none reads all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_mq.api import consumer, publish
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.duties import DUTIES, added_duties, run_duties
from django_mq.durable.models import DurableStep
from django_mq.engine.states import State
from django_mq.models import Message
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester
from tests.stores.builders import declare, look, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 10_000
EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN", "mysql": "EXPLAIN"}
#: What a plan says of a statement that reads all messages to find those whose time has come.
WALK = {"sqlite": "SCAN parked", "postgresql": "Seq Scan on django_mq_message parked", "mysql": "'parked', 'ALL'"}
TABLES = ("django_mq_message", "django_mq_durablestep")


@pytest.fixture
def alias(committed_database: str) -> Iterator[str]:
    declare(shared_store(committed_database), "orders")

    @consumer("orders", durable=True)
    def nap(message: Any) -> None:
        message.sleep(days=3)

    yield committed_database
    handlers.forget("orders")


def fall_asleep(alias: str, count: int) -> None:
    """Let one message fall asleep, and copy it."""
    publish("orders", 1, using=alias)
    with QueueTester(using=alias) as mq:
        mq.drain()
    message, step = Message.objects.using(alias).get(), DurableStep.objects.using(alias).get()
    names = [field.attname for field in Message._meta.local_concrete_fields if field.attname != "id"]
    like = {name: getattr(message, name) for name in names}
    messages, steps = [], []
    for number in range(1, count):
        moved = {"message_id": uuid4(), "place": message.place + number}
        until = message.parked_until + timedelta(hours=number)  # type: ignore[operator] # it sleeps
        messages.append(Message(**like | moved | {"parked_until": until}))
        given = {"queue_name": "orders", "place": 0, "kind": "sleep", "outcome": "open", "until": until}
        steps.append(DurableStep(message_id=moved["message_id"], recorded_at=step.recorded_at, **given))
    Message.objects.using(alias).bulk_create(messages, batch_size=500)
    DurableStep.objects.using(alias).bulk_create(steps, batch_size=500)
    connection = connections[alias]
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ANALYZE {'TABLE ' if connection.vendor == 'mysql' else ''}{table}")
            if connection.vendor == "mysql":
                cursor.fetchall()


def idle(alias: str) -> tuple[list[str], Any]:
    """Do once what an idle worker does: look for messages, and the maintenance. Return the statements."""
    store = shared_store(alias)
    added = [duty for duty in added_duties() if duty.name.startswith("durable.")]
    session = open_session(store, queues=("orders",))
    with CaptureQueriesContext(connections[alias]) as seen:
        found = look(store, session)
        run_duties(store, [*(duty for duty in DUTIES if duty.name in {"reap", "promote", "expire"}), *added])
    store.sessions.close(session)
    assert len(added) == 3
    assert not found.claimed
    return [each["sql"] for each in seen], found.next_due_seconds


def test_many_sleepers_add_no_statement_to_an_idle_fleet(alias: str) -> None:
    without, due_seconds = idle(alias)
    assert due_seconds is None
    fall_asleep(alias, MANY)
    statements, due_seconds = idle(alias)

    assert Message.objects.using(alias).filter(state=State.PARKED.value).count() == MANY
    assert len(statements) == len(without)
    # It does not come back for them: what the maintenance asks anyway finds those whose time has come.
    assert due_seconds is None

    plan = plan_of(alias, "due_duties")
    assert "django_mq_message_waking" in plan, plan
    assert WALK[connections[alias].vendor] not in plan, plan


def plan_of(alias: str, name: str) -> str:
    """Return the plan of a statement of the maintenance."""
    store: Any = shared_store(alias)
    times = {"stalled_seconds": 60.0, "soon_seconds": 60.0}
    params = store.database.fitted(times | store.sessions.grace())
    with connections[alias].cursor() as cursor:
        cursor.execute(f"{EXPLAIN[connections[alias].vendor]} {store.database.text(name)}", params)
        return "\n".join(map(str, cursor.fetchall()))


def test_of_many_sleepers_those_go_on_whose_time_has_come(alias: str) -> None:
    fall_asleep(alias, 50)
    with QueueTester(using=alias) as mq:
        assert mq.drain(ahead=timedelta(days=2, hours=23)).outcomes == []
        assert mq.drain(ahead=timedelta(hours=11, minutes=30)).outcomes == ["accepted"] * 11
