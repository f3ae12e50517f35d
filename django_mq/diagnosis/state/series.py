"""The last hour or day, minute by minute, in one statement over the minutes that workers have summed up.

A minute that no worker has summed up is unknown. It is not a minute without traffic.
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
#: Delay in summing up after which the page warns; until then the charts end with the last known minute.
PATIENCE = timedelta(minutes=5)
#: How many minutes recent rates cover, and how old these may be.
RECENT_MINUTES = 5
RECENT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Span:
    """How far a chart looks back, and its step."""

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
    """One step: rates in messages a second, None if no minute is known; waits and runs in seconds, None if no
    message was accepted.

    Over several minutes or queues, the median is the mean of the medians, weighted by messages, and the 95th
    percentile is the largest.
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
    """The steps of a span, and the end of the newest known minute."""

    points: list[Point]
    known_until: datetime | None
    #: Whether minutes are missing at the end: no worker has summed them up.
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second over the newest minutes."""

    arrived: float = 0.0
    accepted: float = 0.0
    failed: float = 0.0
    #: Ends of deliveries that were not the first.
    redelivered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """How long the accepted messages of the newest minutes waited and ran, in seconds; None without any."""

    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True)
class Recent:
    """The rates and spans of all queues over the newest known minutes, by queue."""

    minutes: int = 0
    rates: dict[str, Rates] = field(default_factory=dict)
    spans: dict[str, Spans] = field(default_factory=dict)

    def of(self, queue: str) -> Rates | None:
        """Return the rates of a queue, zero without traffic; None if no minute is known."""
        return self.rates.get(queue, Rates()) if self.minutes else None


def series(span: Span, *, queue: str | None = None, using: str) -> Series:
    """Return one point per step, of one queue or of all, up to the newest known minute.

    If that is too old, return them up to the last whole minute by the database's clock.
    """
    now = running_minute(shared_store(using))
    rows = _minutes(using, now - span.length - PATIENCE, now)
    if queue is not None:
        rows = rows.filter(queue_name__in=(SUMMED_UP, queue))
    minutes = list(rows.values("minute").annotate(**SUMS, **SPREADS).order_by("minute"))
    known_until = minutes[-1]["minute"] + MINUTE if minutes else None
    late = known_until is None or now - known_until > PATIENCE
    last = now if known_until is None or late else known_until
    return Series(points=_points(span, last - span.length, minutes), known_until=known_until, late=late)


def recent_rates(*, using: str) -> Recent:
    """Return each queue's rates and spans over the newest known minutes, unless they are too old."""
    now = running_minute(shared_store(using))
    marks = _minutes(using, now - RECENT, now).filter(queue_name=SUMMED_UP).order_by("-minute")
    minutes = list(marks.values_list("minute", flat=True)[:RECENT_MINUTES])
    if not minutes or now - minutes[0] - MINUTE > PATIENCE:
        return Recent()
    rows = Rollup.objects.using(using).filter(minute__in=minutes).exclude(queue_name=SUMMED_UP)
    found = {row["queue_name"]: [row] for row in rows.values("queue_name").annotate(**SUMS, **SPREADS).order_by()}
    return Recent(
        minutes=len(minutes),
        rates={queue: Rates(**_rates(summed, len(minutes))) for queue, summed in found.items()},
        spans={queue: Spans(**_spans(summed)) for queue, summed in found.items()},
    )


def summed_up_seconds(*, using: str) -> float | None:
    """Return the time in seconds since the end of the last summed-up minute, by the database's clock.

    None if there is none. A busy worker sums up a minute within seconds of its end.
    """
    marks = Rollup.objects.using(using).filter(queue_name=SUMMED_UP).order_by("-minute")
    newest = marks.values_list("minute", UTCNow()).first()
    return None if newest is None else max(0.0, (newest[1] - newest[0] - MINUTE).total_seconds())


#: The queue's name in the row that marks a minute as summed up.
SUMMED_UP = ""
COUNTED = ("arrived", "accepted", "failed", "redelivered")
SUMS = {f"all_{name}": Sum(name) for name in COUNTED}
SPREADS = {
    "wait_p95_": Max("wait_p95"),
    "run_p95_": Max("run_p95"),
    "wait_mass": Sum(F("wait_p50") * F("accepted")),
    "run_mass": Sum(F("run_p50") * F("accepted")),
}


def running_minute(store: Store) -> datetime:
    """Return the current minute by the database's clock, by which workers sum up."""
    now = datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())
    return now.replace(second=0, microsecond=0)


def _minutes(alias: str, first: datetime, last: datetime) -> QuerySet[Any]:
    return Rollup.objects.using(alias).filter(minute__gte=first, minute__lt=last)


def _points(span: Span, first: datetime, minutes: Sequence[dict[str, Any]]) -> list[Point]:
    steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in minutes:
        steps[(row["minute"] - first) // span.step].append(row)
    return [_point(first + span.step * number, steps[number]) for number in range(span.length // span.step)]


def _point(time: datetime, rows: Sequence[dict[str, Any]]) -> Point:
    if not rows:
        return Point(time=time)
    return Point(time=time, **_rates(rows, len(rows)), **_spans(rows))


def _rates(rows: Sequence[Mapping[str, Any]], minutes: int) -> dict[str, float]:
    seconds = minutes * MINUTE.total_seconds()
    return {name: sum(row[f"all_{name}"] for row in rows) / seconds for name in COUNTED}


def _spans(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, float | None] = {}
    for name in ("wait", "run"):
        known = [(row[f"{name}_mass"], row["all_accepted"]) for row in rows if row[f"{name}_mass"] is not None]
        total = sum(weight for _, weight in known)
        found[f"{name}_p50"] = sum(value for value, _ in known) / total if total else None
        largest = (row[f"{name}_p95_"] for row in rows if row[f"{name}_p95_"] is not None)
        found[f"{name}_p95"] = max(largest, default=None)
    return found
