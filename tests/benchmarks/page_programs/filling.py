"""A site that has seen much: a million live messages, many finished ones, a fleet, two months of figures."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db import connection
from django.utils import timezone

from django_mq.acts.models import Act
from django_mq.alerts.models import RecordedAlert
from django_mq.engine import tenants
from django_mq.engine.histograms import as_text
from django_mq.engine.rollups import begin_of
from django_mq.failures.groups import group_new
from django_mq.models import (
    Attempt,
    Consumer,
    History,
    InsightHour,
    Message,
    Queue,
    Rollup,
    SearchKey,
    TenantStep,
    WorkerSession,
)
from django_mq.pipeline.insights.tables import keep_hours
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 50
#: Rows written one by one; the rest are copies of them, made by the database.
SEED = 20_000
TYPES = ("order.placed", "order.paid", "mail.welcome", "mail.reminder", "stock.count", "shop.tasks.ship")
#: Of each twenty messages so many are ready, scheduled, claimed and dead.
STATES = (1,) * 14 + (0,) * 3 + (2,) + (3,) * 2
#: How the messages may be spread: parts, the oldest first, each with its share, its state and its queue's number.
#: None: spread as above.
SHAPES: dict[str, list[tuple[float, int | None, int | None]]] = {
    "mixed": [(1.0, None, None)],
    "one-queue": [(1.0, None, 0)],
    "ready": [(1.0, 1, None)],
    "scheduled": [(1.0, 0, None)],
    "dead": [(1.0, 3, None)],
    "old-dead": [(0.1, 3, 1), (0.9, 1, 0)],
}
#: What the database does by itself within a minute or two of so many new rows.
TIDY = {"postgresql": "VACUUM ANALYZE", "sqlite": "ANALYZE"}
NEW_UUID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}


def fill(messages: int, history: int, number_of_queues: int, shape: str = "mixed", *, kept: bool = True) -> None:
    """Write it all; what is not kept is left without statistics."""
    queues = [Queue(name=f"queue-{number:02}") for number in range(number_of_queues)]
    Queue.objects.bulk_create([*queues, Queue(name="empty")])
    Queue.objects.filter(name__gt="queue-09").update(dead_letter_queue=queues[0])
    sessions = _fleet([queue.name for queue in queues])
    for share, state, queue in SHAPES[shape]:
        wanted, oldest = int(messages * share), Message.objects.count()
        Message.objects.bulk_create(
            (
                _message(number, queues[number % len(queues) if queue is None else queue], sessions, state)
                for number in range(min(SEED, wanted))
            ),
            1000,
        )
        _multiply(Message, oldest + wanted, beyond=oldest)
    names = [queue.name for queue in queues]
    History.objects.bulk_create((_finished(number, names) for number in range(min(SEED, history))), 1000)
    _multiply(History, history)
    _name_orders()
    Attempt.objects.bulk_create((_attempt(number, names) for number in range(min(SEED, messages // 10))), 1000)
    while group_new(shared_store("default"), 1000):
        pass
    Rollup.objects.bulk_create(_steps([names[0]]), 1000)
    _spread(names[0])
    TenantStep.objects.bulk_create(_tenants(names[0]), 1000)
    Act.objects.bulk_create(_acts(names))
    RecordedAlert.objects.bulk_create(_alerts(names))
    keep_hours(_hours(names[:20]), "default")
    if kept:
        with connection.cursor() as cursor:
            cursor.execute(TIDY[connection.vendor])


def _name_orders() -> None:
    """Give each message two search keys, as queues do with ``"search": ["order", "tenant"]``."""
    columns = "(message_id, name, value)"
    with connection.cursor() as cursor:
        for table in (History._meta.db_table, Message._meta.db_table):
            for name, value in (("order", "id"), ("tenant", "id % 1000")):
                cursor.execute(
                    f"INSERT INTO {SearchKey._meta.db_table} {columns}"
                    f" SELECT message_id, '{name}', CAST({value} AS varchar(20)) FROM {table} ORDER BY id"
                )


def _spread(name: str) -> None:
    """Give the figures of one queue to all others."""
    columns = [field.column for field in Rollup._meta.local_concrete_fields if not field.primary_key]
    given = ["q.name" if column == "queue_name" else f"r.{column}" for column in columns]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {Rollup._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(given)}"
            f" FROM {Rollup._meta.db_table} r CROSS JOIN {Queue._meta.db_table} q"
            " WHERE r.queue_name = %s AND q.name NOT IN (%s, 'empty')",
            [name, name],
        )


def _acts(names: list[str]) -> list[Act]:
    now = timezone.now()
    return [
        Act(
            began_at=now - timedelta(minutes=number * 7),
            user_name=f"operator-{number % 9}",
            interface="admin",
            model="queue",
            name=("pause", "resume", "redrive")[number % 3],
            about=names[number % len(names)],
            sentence="Done.",
        )
        for number in range(5000)
    ]


def _alerts(names: list[str]) -> list[RecordedAlert]:
    now = timezone.now()
    return [
        RecordedAlert(
            cause="oldest",
            about=names[number % len(names)],
            level="problem",
            sentence="Messages have waited for an hour.",
            began_at=now - timedelta(minutes=number * 11 + 10),
            seen_at=now - timedelta(minutes=number * 11),
            ended_at=now - timedelta(minutes=number * 11),
        )
        for number in range(2000)
    ]


def _fleet(names: list[str]) -> list[WorkerSession]:
    now = timezone.now()
    sessions = [
        WorkerSession(
            name=f"worker-{number}@host",
            kind="native",
            host="host",
            pid=number,
            version="1",
            queues=names[:5],
            credit=100,
            started_at=now,
            heartbeat_at=now,
            deadline=now + timedelta(days=1),
        )
        for number in range(WORKERS)
    ]
    WorkerSession.objects.bulk_create(sessions)
    Consumer.objects.bulk_create(
        Consumer(session=session, queue_name=name, credit_limit=20, credit_used=3)
        for session in sessions
        for name in names[:5]
    )
    return sessions


def _message(number: int, queue: Queue, sessions: list[WorkerSession], given: int | None) -> Message:
    now, state = timezone.now(), STATES[number // 20 % 20] if given is None else given
    claimed, dead, due = state == 2, state == 3, state == 0
    return Message(
        queue=queue,
        state=state,
        level=number % 10,
        priority=number % 10,
        attempts=number % 4 if dead else 0,
        message_id=uuid4(),
        type=TYPES[number % len(TYPES)],
        correlation_id=f"correlation-{number}" if number % 3 == 0 else None,
        published_at=now - timedelta(minutes=number % 20_000),
        deliver_at=now + timedelta(minutes=number % 5000 + 1) if due else None,
        session=sessions[number % WORKERS] if claimed else None,
        claim=number if claimed else None,
        claimed_at=now if claimed else None,
        dead_reason=f"ValueError: number {number % 7}" if dead else "",
        dead_at=now if dead else None,
        content_type="application/json",
        headers={"tenant": number % 100},
        body=b'{"id": %d, "note": "%s"}' % (number, b"x" * 120),
    )


def _finished(number: int, names: list[str]) -> History:
    end = timezone.now() - timedelta(seconds=number)
    return History(
        message_id=uuid4(),
        queue_name=names[number % len(names)],
        type=TYPES[number % len(TYPES)],
        priority=number % 10,
        outcome=2 if number % 50 == 0 else 1,
        attempts=0,
        published_at=end,
        ready_at=end,
        claimed_at=end,
        finished_at=end,
    )


def _attempt(number: int, names: list[str]) -> Attempt:
    return Attempt(
        message_id=uuid4(),
        queue_name=names[number % len(names)],
        type=TYPES[number % len(TYPES)],
        number=1,
        failed_at=timezone.now() - timedelta(seconds=number),
        worker="worker-1@host",
        error="ValueError",
        detail=("no", "not now", "never", "perhaps")[number % 4],
        traceback="Traceback\n" * 20,
    )


def _steps(names: list[str]) -> list[Rollup]:
    begin = timezone.now().replace(second=0, microsecond=0)
    spans = {name: as_text({str(number): 3 for number in range(50, 70)}) for name in ("waits", "runs")}
    found = []
    for step, number in ((1, 48 * 60), (10, 15 * 144), (60, 31 * 24), (360, 62 * 4)):
        begin = begin_of(begin, timedelta(minutes=step))
        counts = {"seconds": 60 * step, "minutes": step, "arrived": 60 * step, "accepted": 55 * step}
        sums = {"wait_seconds": 90.0 * step, "run_seconds": 90.0 * step}
        for minute in range(1, number):
            common = {"begins_at": begin - minute * timedelta(minutes=step), **counts, **sums, **spans}
            found += [Rollup(queue_name=name, type="shop.send" if name else "", **common) for name in [*names, ""]]
    return found


def _tenants(queue: str) -> Iterator[TenantStep]:
    """Yield as many tenants as may be kept of a queue and of all, others in each step, and what waits of them."""
    now, most = timezone.now(), tenants.MOST * len(tenants.MEASURES)
    waits = as_text({str(number): 3 for number in range(50, 70)})
    figures = {"accepted": 60, "failed": 3, "dead": 1, "wait_seconds": 90.0, "run_seconds": 90.0, "waits": waits}
    for step, kept in {timedelta(0): timedelta(0), **tenants.KEPT}.items():
        for number in range(1, kept // step if step else 2):
            begins_at = begin_of(now, step) - step * number if step else now
            common = {"seconds": int(step.total_seconds()), "begins_at": begins_at, **figures, "waiting": 7}
            yield TenantStep(kind=tenants.TenantRow.MARK, tenant="tenant", **common)
            for name in (queue, tenants.ALL_QUEUES):
                yield TenantStep(queue_name=name, kind=tenants.TenantRow.OTHERS, **common)
                for each in range(most):
                    tenant = f"tenant-{(each + number * 37) % 5000}"
                    yield TenantStep(queue_name=name, kind=tenants.TenantRow.TENANT, tenant=tenant, **common)


def _hours(names: list[str]) -> list[dict[str, Any]]:
    """Return four weeks of hours, as the job that computes them has them."""
    begin = timezone.now().replace(minute=0, second=0, microsecond=0)
    spans = {
        "arrivals": 3600,
        "completions": 3600,
        "wait_p50": 0.1,
        "wait_p95": 0.5,
        "run_p50": 0.2,
        "run_p95": 0.9,
    }
    histogram = json.dumps({str(bucket): 90 for bucket in range(40, 80)})
    return [
        {
            "queue": name,
            "level": InsightHour.ALL_LEVELS,
            "hour": int((begin - timedelta(hours=hour)).timestamp()) * 1_000_000,
            "wait_histogram": histogram,
            "run_histogram": histogram,
            **spans,
        }
        for hour in range(28 * 24)
        for name in names
    ]


def _multiply(model: Any, wanted: int, *, beyond: int = 0) -> None:
    """Double the rows behind a key until there are enough in all."""
    columns = [field.column for field in model._meta.local_concrete_fields if not field.primary_key]
    given = [NEW_UUID[connection.vendor] if name == "message_id" else f'"{name}"' for name in columns]
    named = ", ".join(f'"{name}"' for name in columns)
    table = model._meta.db_table
    copy = (
        f"INSERT INTO {table} ({named}) SELECT {', '.join(given)} FROM {table} WHERE id > %s ORDER BY id LIMIT %s"
    )
    with connection.cursor() as cursor:
        while (missing := wanted - model.objects.count()) > 0:
            cursor.execute(copy, [beyond, missing])
