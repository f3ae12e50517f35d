"""What the last hour or day brought: one statement over the summed-up minutes, one row a minute."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, Max, Sum
from django.utils import timezone

from django_mq.models import Rollup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

MINUTE = timedelta(minutes=1)


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
    """One step: rates in messages a second, spans in seconds, None where nothing was accepted.

    Over several minutes or queues, a median is the mean of the medians, weighted by messages,
    and a 95th percentile the largest.
    """

    time: datetime
    arrived: float = 0.0
    accepted: float = 0.0
    failed: float = 0.0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second over the last minutes."""

    arrived: float = 0.0
    accepted: float = 0.0
    failed: float = 0.0


def series(span: Span, *, queue: str | None = None, using: str) -> list[Point]:
    """Return one point per step up to the last whole minute, of one queue or of all."""
    last = timezone.now().replace(second=0, microsecond=0)
    first = last - span.length
    rows = _minutes(using, first, last)
    if queue is not None:
        rows = rows.filter(queue_name=queue)
    steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.values("minute").annotate(**SUMS, **SPREADS).order_by():
        steps[(row["minute"] - first) // span.step].append(row)
    count = span.length // span.step
    return [_point(first + span.step * number, steps[number], span.step) for number in range(count)]


def recent_rates(*, minutes: int = 5, using: str) -> dict[str, Rates]:
    """Return each queue's rates over the last whole minutes; a queue without traffic is not there."""
    last = timezone.now().replace(second=0, microsecond=0)
    rows = _minutes(using, last - MINUTE * minutes, last).values("queue_name").annotate(**SUMS).order_by()
    return {row["queue_name"]: Rates(**_rates([row], minutes * 60)) for row in rows}


COUNTED = ("arrived", "accepted", "failed")
SUMS = {f"all_{name}": Sum(name) for name in COUNTED}
SPREADS = {
    "wait_p95_": Max("wait_p95"),
    "run_p95_": Max("run_p95"),
    "wait_mass": Sum(F("wait_p50") * F("accepted")),
    "run_mass": Sum(F("run_p50") * F("accepted")),
}


def _minutes(alias: str, first: datetime, last: datetime) -> QuerySet[Any]:
    rows: QuerySet[Any] = Rollup.objects.using(alias).filter(minute__gte=first, minute__lt=last)
    return rows.exclude(queue_name="")


def _point(time: datetime, rows: Sequence[dict[str, Any]], step: timedelta) -> Point:
    return Point(
        time=time,
        **_rates(rows, step.total_seconds()),
        wait_p50=_middle(rows, "wait_mass"),
        wait_p95=_largest(rows, "wait_p95_"),
        run_p50=_middle(rows, "run_mass"),
        run_p95=_largest(rows, "run_p95_"),
    )


def _rates(rows: Sequence[dict[str, Any]], seconds: float) -> dict[str, float]:
    return {name: sum(row[f"all_{name}"] for row in rows) / seconds for name in COUNTED}


def _middle(rows: Sequence[dict[str, Any]], mass: str) -> float | None:
    known = [(row[mass], row["all_accepted"]) for row in rows if row[mass] is not None]
    total = sum(weight for _, weight in known)
    return sum(value for value, _ in known) / total if total else None


def _largest(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)
