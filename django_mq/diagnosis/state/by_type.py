"""What runs and what fails, by queue and type: counted over the newest rows of the past, and of no more.

Each is one statement, which walks the index of the times back from now and stops after ``NEWEST`` rows, however
much there is; the rest is arithmetic. A type is a task's name, or what the publisher called it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from django_mq.models import Attempt, History
from django_mq.stores.registry import shared_store
from django_mq.stores.sql.maintenance import percentile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from django_mq.diagnosis.state.series import Span

#: Finished messages, and failed attempts, that are read at most.
NEWEST = 5_000
#: What is read of a finished message.
TIMED = ("queue_name", "type", "outcome", "ready_at", "claimed_at", "finished_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What was accepted of one type in one queue: how many, and how long they waited and ran, in seconds."""

    queue: str
    type: str
    accepted: int
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None
    #: How long all of them ran together: what they took of the workers.
    run_seconds: float


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
    """The rows, what matters most first, and what they were counted over."""

    rows: list[Row]
    #: Finished messages or failed attempts that were read, and the time of the first of them if there are more.
    read: int
    since: datetime
    cut: bool


@dataclass(slots=True)
class _Times:
    waits: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)


def runs(span: Span, *, queues: Collection[str] = (), using: str) -> Sample[Runs]:
    """Return what ran, of these queues or of all; what took most of the workers' time stands first.

    Of a task that Celery accepts before it runs (early acks) nobody knows how long it ran.
    """
    since = _beginning(span, using)
    rows = History.objects.using(using).filter(finished_at__gte=since).order_by("-finished_at")
    read = list(rows.values_list(*TIMED)[:NEWEST])
    found: dict[tuple[str, str], _Times] = defaultdict(_Times)
    for queue, type_, outcome, ready, claimed, finished in read:
        if outcome == History.Outcome.ACCEPTED and claimed is not None and (not queues or queue in queues):
            times = found[queue, type_]
            times.waits.append(max(0.0, (claimed - ready).total_seconds()))
            times.runs.append(max(0.0, (finished - claimed).total_seconds()))
    counted = [_runs(queue, type_, times) for (queue, type_), times in found.items()]
    return _sample(
        sorted(counted, key=lambda row: (-row.run_seconds, -row.accepted, row.queue, row.type)),
        [row[-1] for row in read],
        since,
    )


def failures(span: Span, *, queues: Collection[str] = (), using: str) -> Sample[Failures]:
    """Return what failed, of these queues or of all; what failed most often stands first."""
    since = _beginning(span, using)
    rows = Attempt.objects.using(using).filter(failed_at__gte=since).order_by("-failed_at")
    read = list(rows.values_list("error", "queue_name", "type", "failed_at")[:NEWEST])
    found: dict[tuple[str, str, str], list[datetime]] = defaultdict(list)
    for *key, failed_at in read:
        error, queue, type_ = key
        if not queues or queue in queues:
            found[error, queue, type_].append(failed_at)
    counted = [
        Failures(error=error, queue=queue, type=type_, attempts=len(times), last=max(times))
        for (error, queue, type_), times in found.items()
    ]
    return _sample(
        sorted(counted, key=lambda row: (-row.attempts, row.error, row.queue, row.type)),
        [row[-1] for row in read],
        since,
    )


def _beginning(span: Span, alias: str) -> datetime:
    """Return where the span begins by the database's clock, which wrote the times."""
    return datetime.now(UTC) + timedelta(seconds=shared_store(alias).now_skew_seconds()) - span.length


def _runs(queue: str, type_: str, times: _Times) -> Runs:
    waits, spent = sorted(times.waits), sorted(times.runs)
    return Runs(
        queue=queue,
        type=type_,
        accepted=len(spent),
        wait_p50=percentile(waits, 50),
        wait_p95=percentile(waits, 95),
        wait_p99=percentile(waits, 99),
        run_p50=percentile(spent, 50),
        run_p95=percentile(spent, 95),
        run_p99=percentile(spent, 99),
        run_seconds=sum(spent),
    )


def _sample(rows: Iterable[Row], times: list[datetime], since: datetime) -> Sample[Row]:
    cut = len(times) == NEWEST
    return Sample(rows=list(rows), read=len(times), since=times[-1] if cut else since, cut=cut)
