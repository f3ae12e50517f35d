"""What the last hour or day brought: one statement over the summed-up minutes, one row a minute.

A minute that nobody has summed up is unknown, and not a minute in which nothing happened: the
one that ran a moment ago, and those in which no worker was alive to do it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, Max, Sum

from django_mq.models import Rollup
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

MINUTE = timedelta(minutes=1)
#: How late minutes may be summed up before it shows; until then the charts end where the figures do.
PATIENCE = timedelta(minutes=5)
#: How many minutes recent rates are taken over, and how far back they may lie.
RECENT_MINUTES = 5
RECENT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Span:
    """How far back, and in which steps."""

    name: str
    length: timedelta
    step: timedelta


SPANS = {
    span.name: span
    for span in (
        Span("hour", timedelta(hours=1), MINUTE),
        Span("day", timedelta(days=1), timedelta(minutes=10)),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step: rates in messages a second over its known minutes, None where none is known; spans in seconds,
    None where nothing was accepted.

    Over several minutes or queues, a median is the mean of the medians, weighted by messages,
    and a 95th percentile the largest.
    """

    time: datetime
    arrived: float | None = None
    accepted: float | None = None
    failed: float | None = None
    redelivered: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The steps of a span, and the end of the newest minute that is known, None if none is."""

    points: list[Point]
    known_until: datetime | None
    #: Whether minutes are missing at the end, as no worker has summed them up for longer than is usual.
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second over the newest minutes."""

    arrived: float = 0.0
    accepted: float = 0.0
    failed: float = 0.0
    #: Deliveries that ended, of messages that had been delivered before.
    redelivered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """How long what was accepted in the newest minutes had waited, and then ran, in seconds; None of nothing."""

    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True)
class Recent:
    """The rates and spans of all queues over the newest known minutes, of which there may be none."""

    minutes: int = 0
    rates: dict[str, Rates] = field(default_factory=dict)
    spans: dict[str, Spans] = field(default_factory=dict)

    def of(self, queue: str) -> Rates | None:
        """Return the rates of a queue, zero if it saw no traffic; None where nothing is known."""
        return self.rates.get(queue, Rates()) if self.minutes else None


def series(span: Span, *, queue: str | None = None, using: str) -> Series:
    """Return one point per step, of one queue or of all, up to the newest minute that is known.

    Where that is longer ago than is usual, up to the last whole minute by the database's clock.
    """
    now = running_minute(shared_store(using))
    rows = _minutes(using, now - span.length - PATIENCE, now)
    if queue is not None:
        rows = rows.filter(queue_name__in=(NOBODY, queue))
    minutes = list(rows.values("minute").annotate(**SUMS, **SPREADS).order_by("minute"))
    known_until = minutes[-1]["minute"] + MINUTE if minutes else None
    late = known_until is None or now - known_until > PATIENCE
    last = now if known_until is None or late else known_until
    return Series(points=_points(span, last - span.length, minutes), known_until=known_until, late=late)


def recent_rates(*, using: str) -> Recent:
    """Return each queue's rates and spans over the newest minutes that are known, unless the newest is too old."""
    now = running_minute(shared_store(using))
    marks = _minutes(using, now - RECENT, now).filter(queue_name=NOBODY).order_by("-minute")
    minutes = list(marks.values_list("minute", flat=True)[:RECENT_MINUTES])
    if not minutes or now - minutes[0] - MINUTE > PATIENCE:
        return Recent()
    rows = Rollup.objects.using(using).filter(minute__in=minutes).exclude(queue_name=NOBODY)
    found = {row["queue_name"]: [row] for row in rows.values("queue_name").annotate(**SUMS, **SPREADS).order_by()}
    return Recent(
        minutes=len(minutes),
        rates={queue: Rates(**_rates(summed, len(minutes))) for queue, summed in found.items()},
        spans={queue: Spans(**_spans(summed)) for queue, summed in found.items()},
    )


def summed_up_seconds(*, using: str) -> float | None:
    """Return how long ago the last minute ended that was summed up, by the database's clock; None if none was.

    A worker at work sums a minute up within seconds of its end.
    """
    marks = Rollup.objects.using(using).filter(queue_name=NOBODY).order_by("-minute")
    newest = marks.values_list("minute", UTCNow()).first()
    return None if newest is None else max(0.0, (newest[1] - newest[0] - MINUTE).total_seconds())


#: The queue's name in the row that says that a minute has been summed up.
NOBODY = ""
COUNTED = ("arrived", "accepted", "failed", "redelivered")
SUMS = {f"all_{name}": Sum(name) for name in COUNTED}
SPREADS = {
    "wait_p95_": Max("wait_p95"),
    "run_p95_": Max("run_p95"),
    "wait_mass": Sum(F("wait_p50") * F("accepted")),
    "run_mass": Sum(F("run_p50") * F("accepted")),
}


def running_minute(store: Store) -> datetime:
    """Return the minute that runs, by the database's clock: minutes are summed up by it, not by a web server's."""
    now = datetime.now(UTC) + timedelta(seconds=store.now_skew_seconds())
    return now.replace(second=0, microsecond=0)


def _minutes(alias: str, first: datetime, last: datetime) -> QuerySet[Any]:
    """Return the rows of these minutes; each that has been summed up has one without a queue at least."""
    return Rollup.objects.using(alias).filter(minute__gte=first, minute__lt=last)


def _points(span: Span, first: datetime, minutes: Sequence[dict[str, Any]]) -> list[Point]:
    steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in minutes:
        steps[(row["minute"] - first) // span.step].append(row)
    return [_point(first + span.step * number, steps[number]) for number in range(span.length // span.step)]


def _point(time: datetime, rows: Sequence[dict[str, Any]]) -> Point:
    if not rows:
        return Point(time=time)
    return Point(
        time=time,
        **_rates(rows, len(rows)),
        **_spans(rows),
    )


def _rates(rows: Sequence[Mapping[str, Any]], minutes: int) -> dict[str, float]:
    """Return the sums of the rows as messages a second over so many minutes."""
    seconds = minutes * MINUTE.total_seconds()
    return {name: sum(row[f"all_{name}"] for row in rows) / seconds for name in COUNTED}


def _spans(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "wait_p50": _middle(rows, "wait_mass"),
        "wait_p95": _largest(rows, "wait_p95_"),
        "run_p50": _middle(rows, "run_mass"),
        "run_p95": _largest(rows, "run_p95_"),
    }


def _middle(rows: Sequence[Mapping[str, Any]], mass: str) -> float | None:
    known = [(row[mass], row["all_accepted"]) for row in rows if row[mass] is not None]
    total = sum(weight for _, weight in known)
    return sum(value for value, _ in known) / total if total else None


def _largest(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)
