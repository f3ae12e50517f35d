"""Figures to take along: rows of plain values, for JSON and for CSV."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from django_mq.insights import reading
from django_mq.models import InsightCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

#: Fields of an hour, in this order; times are ISO 8601, durations seconds, histograms buckets with their counts.
HOUR = (
    "queue_name",
    "level",
    "hour",
    "arrivals",
    "completions",
    "expired",
    "removed",
    "retries",
    "first_successes",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "wait_sum",
    "run_p50",
    "run_p95",
    "run_p99",
    "run_sum",
    "depth_start",
    "depth_max",
    "depth_mean",
    "slo_misses",
    "inversions",
    "starved",
    "consumers",
    "fairness",
    "wait_histogram",
    "run_histogram",
)
#: Fields of a queue over the whole span.
QUEUE = tuple(reading.Summary.__dataclass_fields__)
#: Fields of a cause: so many on one day, of one queue, for one reason.
CAUSE = ("queue_name", "day", "dead", "reason", "messages")

Rows = list[dict[str, Any]]


def hours(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    """Return every hour of every level."""
    found = reading.hours(alias, since=since, until=until, queue=queue).values(*HOUR)
    return [{**row, "hour": row["hour"].isoformat()} for row in found]


def queues(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    """Return every queue in a few numbers: percentiles of the whole span, busiest hours, the forecast."""
    return [found.as_dict() for found in reading.summaries(alias, since=since, until=until, queue=queue)]


def causes(alias: str, since: datetime, until: datetime, queue: str | None) -> Rows:
    """Return why attempts failed and messages died, day by day."""
    rows = InsightCause.objects.using(alias).filter(day__gte=since.date(), day__lte=until.date())
    chosen = rows if queue is None else rows.filter(queue_name=queue)
    ordered = chosen.order_by("queue_name", "day", "-messages", "reason")
    return [{**row, "day": row["day"].isoformat()} for row in ordered.values(*CAUSE)]


#: What can be taken along: its fields, and who reads them.
EXPORTS: dict[str, tuple[tuple[str, ...], Callable[[str, datetime, datetime, str | None], Rows]]] = {
    "hours": (HOUR, hours),
    "queues": (QUEUE, queues),
    "causes": (CAUSE, causes),
}


def write_csv(file: Any, fields: Iterable[str], rows: Rows, line_end: str = "\r\n") -> None:
    """Write rows to whatever can be written to; lists and histograms are JSON in their cells."""
    writer = csv.DictWriter(file, [*fields], lineterminator=line_end)
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet takes for a formula."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    return harmless(value) if isinstance(value, str) else value


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
