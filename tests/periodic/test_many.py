"""Ten thousand periodic messages cost an idle database one statement a minute; no statement reads all of them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_mq.delivery.consumer.worker import Worker
from django_mq.engine.decisions.periodic import AHEAD_SECONDS, LOOK_SECONDS
from django_mq.periodic import duty, editor
from django_mq.periodic.extension import find
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler
from tests.periodic.conftest import a_row, look_now

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 10_000
EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN", "mysql": "EXPLAIN"}
#: What a plan says of a statement that reads all rows of a table.
WALKS = {"sqlite": "SCAN {}", "postgresql": "Seq Scan on {} ", "mysql": "'{}', 'ALL'"}
TABLES = ("django_mq_periodic", "django_mq_periodicrun")


@pytest.fixture
def many(alias: str) -> str:
    """Periodic messages that are due tomorrow, each with a run, and statistics of their tables."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    rows = [
        PeriodicMessage(
            name=f"report {number}",
            queue="reports",
            every_seconds=86400.0,
            alert_seconds=86400.0,
            next_at=tomorrow,
            look_at=tomorrow - timedelta(seconds=AHEAD_SECONDS),
            created_at=tomorrow - timedelta(days=1),
        )
        for number in range(MANY)
    ]
    made = PeriodicMessage.objects.using(alias).bulk_create(rows, batch_size=2000)
    keys = [row.pk for row in made if row.pk] or PeriodicMessage.objects.using(alias).values_list("pk", flat=True)
    due = tomorrow - timedelta(days=1)
    runs = [PeriodicRun(periodic_id=key, due_at=due, message_id=uuid4()) for key in keys]
    PeriodicRun.objects.using(alias).bulk_create(runs, batch_size=2000)
    with connections[alias].cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ANALYZE {'TABLE ' if connections[alias].vendor == 'mysql' else ''}{table}")
            if connections[alias].vendor == "mysql":
                cursor.fetchall()
    return alias


@pytest.mark.once
def test_an_idle_leader_asks_one_statement_a_minute(many: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1, using=many):
        look_now(many)

    assert duty._next_looks[many] - time.monotonic() > LOOK_SECONDS - 30
    assert not duty.is_time(shared_store(many))
    with django_assert_num_queries(1, using=many):
        assert list(find(many)) == []


@pytest.mark.once
def test_no_statement_of_a_tick_walks_through_all_rows(many: str, move: Callable[[timedelta], None]) -> None:
    connection = connections[many]
    row = a_row(many, name="one", overlap="skip")
    for number in range(duty.RUNS_KEPT + 1):
        due = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=number)
        PeriodicRun.objects.using(many).create(periodic=row, due_at=due, outcome="succeeded", ended_at=due)
    move(timedelta(seconds=500))
    with CaptureQueriesContext(connection) as captured:
        assert look_now(many) == 1
        move(timedelta(seconds=101))
        Worker([a_handler(lambda _: None, queue="reports")], threads=1, using=many).run(until_empty=True)
        row.refresh_from_db()
        editor.pause(row)
    assert PeriodicRun.objects.using(many).get(periodic=row, due_at__year__gt=2020).outcome == "succeeded"

    statements = [each["sql"] for each in captured if any(table in each["sql"] for table in TABLES)]
    statements.append(
        f"UPDATE django_mq_periodicrun SET outcome = 'dead' WHERE message_id = {identity(connection)}"
    )
    assert len(statements) > 5
    for statement in statements:
        if statement.startswith("INSERT"):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"{EXPLAIN[connection.vendor]} {statement}")
            plan = "\n".join(map(str, cursor.fetchall()))
        for table in TABLES:
            assert WALKS[connection.vendor].format(table) not in f"{plan} ", f"{statement}\n{plan}"


def identity(connection: Any) -> str:
    """Return a message id as the database writes it."""
    return f"'{uuid4()}'" if connection.features.has_native_uuid_field else f"'{uuid4().hex}'"
