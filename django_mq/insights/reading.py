"""A queue's past in a few numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Sum, TextField
from django.db.models.functions import Cast

from django_mq.errors import PipelineError
from django_mq.insights import forecast, histograms
from django_mq.models import InsightCause, InsightHour

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, datetime

    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Summary:
    """A queue over a span of time. Durations in seconds; shares from 0 to 1; None where there was nothing."""

    queue: str
    arrivals: int
    completions: int
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None
    first_attempt_share: float | None
    retries: int
    depth_max: int
    slo_misses: int
    inversions: int
    starved: int
    fairness: float | None
    little: float | None
    busiest: list[str]
    outgrown: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def span(days: int, today: date) -> tuple[date, date]:
    """Return the first and the last of so many days up to today. Raises PipelineError."""
    if not 1 <= days < today.toordinal():
        raise PipelineError(f"--days is {days}; use 1 or more, and none from before the year 1.")
    return today - timedelta(days=days - 1), today


def hours(alias: str, *, since: datetime, until: datetime, queue: str | None = None) -> QuerySet[InsightHour]:
    """Return the hours of a span, of all levels together and of each, in order."""
    rows = InsightHour.objects.using(alias).filter(hour__gte=since, hour__lt=until)
    return (rows if queue is None else rows.filter(queue_name=queue)).order_by("queue_name", "hour", "level")


class _Hour(NamedTuple):
    """As much of an hour as a summary needs: of weeks, thousands of models would cost more than all else."""

    queue_name: str
    hour: datetime
    arrivals: int
    completions: int
    first_successes: int
    retries: int
    wait_sum: float
    run_sum: float
    depth_max: int
    depth_mean: float
    slo_misses: int
    inversions: int
    starved: int
    consumers: int
    fairness: float | None
    #: Histograms as JSON.
    waits: str
    runs: str


def summaries(alias: str, *, since: datetime, until: datetime, queue: str | None = None) -> list[Summary]:
    """Return the past of each queue that anything is known of, or of this one, by name; one statement for all."""
    rows = hours(alias, since=since, until=until, queue=queue).filter(level=InsightHour.ALL_LEVELS)
    texts = {"waits": Cast("wait_histogram", TextField()), "runs": Cast("run_histogram", TextField())}
    found = map(_Hour._make, rows.annotate(**texts).values_list(*_Hour._fields))
    told = [_summary(name, [*one]) for name, one in groupby(found, key=lambda row: row.queue_name)]
    return sorted(told, key=lambda one: one.queue)


def _summary(queue: str, rows: Sequence[_Hour]) -> Summary:
    """Return a queue's past in a few numbers; percentiles come from the histograms."""
    waits = histograms.merged(row.waits for row in rows)
    runs = histograms.merged(row.runs for row in rows)
    done, firsts = sum(row.completions for row in rows), sum(row.first_successes for row in rows)
    end = forecast.outgrown(_days(rows))
    return Summary(
        queue=queue,
        arrivals=sum(row.arrivals for row in rows),
        completions=done,
        **{f"wait_p{percent}": histograms.percentile(waits, percent) for percent in (50, 95, 99)},
        **{f"run_p{percent}": histograms.percentile(runs, percent) for percent in (50, 95, 99)},
        first_attempt_share=firsts / done if done else None,
        retries=sum(row.retries for row in rows),
        depth_max=max((row.depth_max for row in rows), default=0),
        slo_misses=sum(row.slo_misses for row in rows),
        inversions=sum(row.inversions for row in rows),
        starved=sum(row.starved for row in rows),
        fairness=_weighted([(row.fairness, row.completions) for row in rows if row.fairness is not None]),
        little=_little(rows),
        busiest=[row.hour.isoformat() for row in sorted(rows, key=lambda row: -row.arrivals)[:3] if row.arrivals],
        outgrown=end.isoformat() if end else None,
    )


def _weighted(pairs: list[tuple[float, int]]) -> float | None:
    weight = sum(count for _, count in pairs)
    return sum(value * count for value, count in pairs) / weight if weight else None


def _little(rows: Sequence[_Hour]) -> float | None:
    """Return the time that messages waited over the time that the depth says: 1 by Little's law.

    Far from 1, part of the messages is missing, or clocks disagree. At the ends of a span a little is.
    """
    stood = sum(row.depth_mean for row in rows) * 3600
    return sum(row.wait_sum for row in rows) / stood if stood else None


def _days(rows: Iterable[_Hour]) -> dict[date, forecast.Day]:
    """Return what each day asked of the workers."""
    by_day: dict[date, list[_Hour]] = defaultdict(list)
    for row in rows:
        by_day[row.hour.date()].append(row)
    return {
        day: forecast.Day(
            sum(row.arrivals for row in found),
            sum(row.run_sum for row in found) / max(1, sum(row.completions for row in found)),
            max(row.consumers for row in found),
        )
        for day, found in by_day.items()
    }


def causes(alias: str, queue: str, *, since: date, until: date) -> list[tuple[bool, str, int]]:
    """Return (dead letter or failed attempt, reason, how many), the most frequent first."""
    rows = InsightCause.objects.using(alias).filter(queue_name=queue, day__gte=since, day__lte=until)
    grouped = rows.order_by().values("dead", "reason").annotate(total=Sum("messages"))
    found = [(row["dead"], row["reason"], row["total"]) for row in grouped]
    return sorted(found, key=lambda cause: (-cause[2], cause[1]))
