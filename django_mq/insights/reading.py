"""Hours, summaries and causes of queues, as objects and as rows for JSON and CSV."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Sum, TextField
from django.db.models.functions import Cast

from django_mq.engine.histograms import merged, quantile
from django_mq.errors import PipelineError
from django_mq.insights import figures
from django_mq.models import InsightCause, InsightDay, InsightHour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import date, datetime

    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue over a span of time. Durations in seconds, shares from 0 to 1; None if there is no figure."""

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


def span(days: int, today: date) -> tuple[date, date]:
    """Return the first and the last of a number of days up to today. Raises PipelineError."""
    if not 1 <= days < today.toordinal():
        raise PipelineError(f"--days is {days}; use 1 or more, and none from before the year 1.")
    return today - timedelta(days=days - 1), today


def hours(alias: str, *, since: datetime, until: datetime, queue: str | None = None) -> QuerySet[InsightHour]:
    """Return the hours of a span in order, of all levels together and of each level."""
    rows = InsightHour.objects.using(alias).filter(hour__gte=since, hour__lt=until)
    return (rows if queue is None else rows.filter(queue_name=queue)).order_by("queue_name", "hour", "level")


class _Hour(NamedTuple):
    """The columns of an hour that a summary needs. Thousands of model instances would be slow."""

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


def summaries(alias: str, *, since: datetime, until: datetime, queue: str | None = None) -> list[QueueSummary]:
    """Return the summary of this queue or of all, by name. Three statements."""
    rows = hours(alias, since=since, until=until, queue=queue).filter(level=InsightHour.ALL_LEVELS)
    found = [_Hour._make(row) for row in rows.values_list(*_Hour._fields)]
    histograms = _histograms(rows, found, _whole_days(alias, since, until, queue))
    told = [
        _summary(name, [*one], histograms[name]) for name, one in groupby(found, key=lambda row: row.queue_name)
    ]
    return sorted(told, key=lambda one: one.queue)


def _whole_days(alias: str, since: datetime, until: datetime, queue: str | None) -> QuerySet[InsightDay]:
    """Return the days that lie wholly within the span."""
    first = (since + timedelta(days=1) - timedelta.resolution).date()
    rows = InsightDay.objects.using(alias).filter(day__gte=first, day__lt=until.date())
    return rows if queue is None else rows.filter(queue_name=queue)


#: Histograms as JSON: of waits, and of the times that messages were held.
Histograms = list[tuple[str, str]]
TEXTS = {"waits": Cast("wait_histogram", TextField()), "runs": Cast("run_histogram", TextField())}


def _histograms(
    rows: QuerySet[InsightHour], found: Iterable[_Hour], days: QuerySet[InsightDay]
) -> dict[str, Histograms]:
    """Return the histograms of each queue: of whole days, and of the hours of days that have no such sum."""
    of_days = days.annotate(**TEXTS).values_list("queue_name", "day", *TEXTS)
    summed = {(queue, day): (waits, runs) for queue, day, waits, runs in of_days}
    hours_left = {row.hour for row in found if (row.queue_name, row.hour.date()) not in summed}
    of_hours = rows.filter(hour__in=hours_left).annotate(**TEXTS).values_list("queue_name", "hour", *TEXTS)
    histograms: defaultdict[str, Histograms] = defaultdict(list)
    for (queue, _), texts in summed.items():
        histograms[queue].append(texts)
    for queue, hour, *texts in of_hours:
        if (queue, hour.date()) not in summed:
            histograms[queue].append((texts[0], texts[1]))
    return histograms


def _summary(queue: str, rows: Sequence[_Hour], histograms: Histograms) -> QueueSummary:
    waits = merged(waits for waits, _ in histograms)
    runs = merged(runs for _, runs in histograms)
    done, firsts = sum(row.completions for row in rows), sum(row.first_successes for row in rows)
    end = figures.outgrown(_days(rows))
    return QueueSummary(
        queue=queue,
        arrivals=sum(row.arrivals for row in rows),
        completions=done,
        **{f"wait_p{percent}": quantile(waits, percent) for percent in (50, 95, 99)},
        **{f"run_p{percent}": quantile(runs, percent) for percent in (50, 95, 99)},
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
    """Return the sum of waits over the time that the depth implies: 1 by Little's law.

    If it is far from 1, messages are missing, or clocks disagree.
    """
    stood = sum(row.depth_mean for row in rows) * 3600
    return sum(row.wait_sum for row in rows) / stood if stood else None


def _days(rows: Iterable[_Hour]) -> dict[date, figures.Day]:
    by_day: dict[date, list[_Hour]] = defaultdict(list)
    for row in rows:
        by_day[row.hour.date()].append(row)
    return {
        day: figures.Day(
            sum(row.arrivals for row in found),
            sum(row.run_sum for row in found) / max(1, sum(row.completions for row in found)),
            max(row.consumers for row in found),
        )
        for day, found in by_day.items()
    }


def causes(alias: str, queue: str, *, since: date, until: date) -> list[tuple[bool, str, int]]:
    """Return (whether a dead letter, reason, number), the most frequent first."""
    rows = InsightCause.objects.using(alias).filter(queue_name=queue, day__gte=since, day__lte=until)
    grouped = rows.order_by().values("dead", "reason").annotate(total=Sum("messages"))
    found = [(row["dead"], row["reason"], row["total"]) for row in grouped]
    return sorted(found, key=lambda cause: (-cause[2], cause[1]))


#: Fields of an hour, in this order; times are ISO 8601, durations seconds, histograms buckets with their counts.
HOUR = (
    *("queue_name", "level", "hour", "arrivals", "completions"),
    *("expired", "removed", "retries", "first_successes"),
    *("wait_p50", "wait_p95", "wait_p99", "wait_sum", "run_p50", "run_p95", "run_p99", "run_sum"),
    *("depth_start", "depth_max", "depth_mean", "slo_misses", "inversions", "starved", "consumers", "fairness"),
    *("wait_histogram", "run_histogram"),
)
#: Fields of a summary.
QUEUE = tuple(QueueSummary.__dataclass_fields__)
#: Fields of a cause.
CAUSE = ("queue_name", "day", "dead", "reason", "messages")

Rows = list[dict[str, Any]]


def _hours(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    found = hours(alias, since=since, until=until, queue=queue).values(*HOUR)
    return [{**row, "hour": row["hour"].isoformat()} for row in found]


def _queues(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    return [asdict(found) for found in summaries(alias, since=since, until=until, queue=queue)]


def _causes(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    rows = InsightCause.objects.using(alias).filter(day__gte=since.date(), day__lte=until.date())
    chosen = rows if queue is None else rows.filter(queue_name=queue)
    ordered = chosen.order_by("queue_name", "day", "-messages", "reason")
    return [{**row, "day": row["day"].isoformat()} for row in ordered.values(*CAUSE)]


#: The exports: their fields, and the function that reads them.
EXPORTS: dict[str, tuple[tuple[str, ...], Callable[[str, datetime, datetime, str | None], Rows]]] = {
    "hours": (HOUR, _hours),
    "queues": (QUEUE, _queues),
    "causes": (CAUSE, _causes),
}


def write_csv(file: Any, fields: Iterable[str], rows: Rows, line_end: str = "\r\n") -> None:
    """Write rows to a file. Lists and histograms are written as JSON."""
    writer = csv.DictWriter(file, [*fields], lineterminator=line_end)
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return harmless(value) if isinstance(value, str) else value


def harmless(text: str) -> str:
    """Return the text, escaped if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
