"""What runs and what fails, by queue and type, counted over the newest finished messages and failed attempts.

Each statement walks the index of the times back from now and stops after ``NEWEST`` rows. A type is the name of a
task, or what the publisher called it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django_mq.engine.percentiles import percentile
from django_mq.models import Attempt, History
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import QuerySet

    from django_mq.rollups.series import Span

#: The most finished messages, and failed attempts, that are read.
NEWEST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The accepted messages of one type in one queue: how many, and the seconds they waited and were held."""

    queue: str
    type: str
    accepted: int
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    held_p50: float | None
    held_p95: float | None
    held_p99: float | None
    #: The sum of all runs.
    held_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The failed attempts of one type in one queue that ended in one exception."""

    error: str
    queue: str
    type: str
    attempts: int
    last: datetime


Row = TypeVar("Row", Runs, Failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Generic[Row]):
    """The rows, and what they were counted over."""

    rows: list[Row]
    #: How many finished messages or failed attempts were read, since when, and whether there are more.
    read: int
    since: datetime
    cut: bool


def runs(span: Span, *, queues: Collection[str] = (), using: str) -> Sample[Runs]:
    """Return what ran in these queues, or in all; what took the workers most time comes first.

    Runs of tasks that Celery accepts before it runs them (early acks) are not known.
    """
    columns = ("queue_name", "type", "outcome", "ready_at", "claimed_at", "finished_at")
    since, read = _newest(History.objects.using(using), columns, span)
    times: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for queue, type_, outcome, ready, claimed, finished in read:
        if outcome == History.Outcome.ACCEPTED and claimed is not None and (not queues or queue in queues):
            pair = (claimed - ready).total_seconds(), (finished - claimed).total_seconds()
            times[queue, type_].append((max(0.0, pair[0]), max(0.0, pair[1])))
    rows = [_runs(queue, type_, found) for (queue, type_), found in times.items()]
    return Sample(
        rows=sorted(rows, key=lambda row: (-row.held_seconds, -row.accepted, row.queue, row.type)),
        read=len(read),
        since=since,
        cut=len(read) == NEWEST,
    )


def _runs(queue: str, type_: str, times: list[tuple[float, float]]) -> Runs:
    waits, ran = map(Counter, zip(*times, strict=True))
    return Runs(
        queue=queue,
        type=type_,
        accepted=len(times),
        **{f"wait_p{percent}": percentile(waits, percent) for percent in (50, 95, 99)},
        **{f"held_p{percent}": percentile(ran, percent) for percent in (50, 95, 99)},
        held_seconds=sum(ran.elements()),
    )


def failures(span: Span, *, queues: Collection[str] = (), using: str) -> Sample[Failures]:
    """Return what failed in these queues, or in all; what failed most often comes first."""
    columns = ("error", "queue_name", "type", "failed_at")
    since, read = _newest(Attempt.objects.using(using), columns, span)
    times: dict[tuple[str, str, str], list[datetime]] = defaultdict(list)
    for error, queue, type_, failed_at in read:
        if not queues or queue in queues:
            times[error, queue, type_].append(failed_at)
    rows = [
        Failures(error=error, queue=queue, type=type_, attempts=len(found), last=max(found))
        for (error, queue, type_), found in times.items()
    ]
    return Sample(
        rows=sorted(rows, key=lambda row: (-row.attempts, row.error, row.queue, row.type)),
        read=len(read),
        since=since,
        cut=len(read) == NEWEST,
    )


def _newest(rows: QuerySet[Any], columns: tuple[str, ...], span: Span) -> tuple[datetime, list[tuple[Any, ...]]]:
    """Return the newest rows of the span, and since when they are all. The last column is their time."""
    # The database's clock wrote the times.
    skew = timedelta(seconds=shared_store(rows.db).database.now_skew_seconds())
    since, time = datetime.now(UTC) + skew - span.length, columns[-1]
    read = list(rows.filter(**{f"{time}__gte": since}).order_by(f"-{time}").values_list(*columns)[:NEWEST])
    return read[-1][-1] if len(read) == NEWEST else since, read
