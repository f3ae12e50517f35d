"""insights, export."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.formats import PLAIN, plural
from django_mq.insights import reading
from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import seconds_of
from django_mq.management.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

#: Headings of the table, each with the field of a summary and its format.
COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "QUEUE": ("queue", str),
    "ARRIVED": ("arrivals", PLAIN.number),
    "DONE": ("completions", PLAIN.number),
    "WAIT P95": ("wait_p95", PLAIN.precise),
    "HELD P95": ("run_p95", PLAIN.precise),
    "DEEPEST": ("depth_max", PLAIN.number),
    "TOO LATE": ("slo_misses", PLAIN.number),
    "INVERTED": ("inversions", PLAIN.number),
    "STARVED": ("starved", PLAIN.number),
    "FAIR": ("fairness", PLAIN.digits),
}


@job(
    "Compute figures of the last days and print them.",
    argument("--days", type=int, default=7, help="How many days up to today, in UTC; default: 7."),
    argument(
        "--slo", type=seconds_of, default=60.0, metavar="SECONDS", help="A longer wait is too late; default: 60."
    ),
    argument(
        "--starved",
        type=seconds_of,
        default=300.0,
        metavar="SECONDS",
        help="A longer wait counts as starved; default: 300.",
    ),
)
def insights(command: Any, alias: str, *, days: int, slo: float, starved: float, **_: Any) -> None:
    from django_mq.pipeline.insights.figures import WaitLimits
    from django_mq.pipeline.insights.job import compute

    since, until = reading.span(days, datetime.now(UTC).date())
    rows = compute(command.session(), alias, since, until, WaitLimits(slo, starved))
    command.stdout.write(f"{plural(rows, 'row')} of figures written.")
    start, end = _times(days)
    found = [_cells(one) for one in reading.summaries(alias, since=start, until=end)]
    if found:
        command.stdout.write(table([*COLUMNS], found, right=range(1, len(COLUMNS))))


def _cells(one: reading.QueueSummary) -> list[str]:
    values = ((getattr(one, name), form) for name, form in COLUMNS.values())
    return ["-" if value is None else form(value) for value, form in values]


def _times(days: int) -> tuple[datetime, datetime]:
    since, until = reading.span(days, datetime.now(UTC).date())
    start = datetime.combine(since, time.min, tzinfo=UTC)
    return start, datetime.combine(until, time.min, tzinfo=UTC) + timedelta(days=1)


@job(
    "Print the stored figures. Starts no Spark.",
    argument("--of", choices=[*reading.EXPORTS], default="hours", help="What to print; default: hours."),
    argument("--days", type=int, default=7),
    argument("--queue"),
    argument("--format", choices=["json", "csv"], default="json"),
)
def export(command: Any, alias: str, *, of: str, days: int, queue: str | None, **options: Any) -> None:
    start, end = _times(days)
    fields, read = reading.EXPORTS[of]
    rows = read(alias, start, end, queue)
    if options["format"] == "json":
        command.stdout.write(json.dumps(rows))
        return
    text = io.StringIO()
    reading.write_csv(text, fields, rows, "\n")
    command.stdout.write(text.getvalue().rstrip("\n"))
