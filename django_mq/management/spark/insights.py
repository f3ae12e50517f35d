"""insights, export."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.insights import reading
from django_mq.insights.reading import EXPORTS, write_csv
from django_mq.management.spark.values import seconds_of
from django_mq.management.tables import plural, table

if TYPE_CHECKING:
    from collections.abc import Callable

HEADINGS = (
    "QUEUE",
    "ARRIVED",
    "DONE",
    "WAIT P95",
    "RUN P95",
    "DEEPEST",
    "TOO LATE",
    "INVERTED",
    "STARVED",
    "FAIR",
)


def add_insight_jobs(jobs: Any) -> None:
    """Add the jobs' options to the command line."""
    insights = jobs.add_parser("insights", help="Compute figures of the last days and print them.")
    insights.add_argument("--days", type=int, default=7, help="So many days up to today, in UTC; 7 without it.")
    insights.add_argument(
        "--slo", type=seconds_of, default=60.0, metavar="SECONDS", help="A longer wait is too late; 60."
    )
    insights.add_argument("--starved", type=seconds_of, default=300.0, metavar="SECONDS", help="300 without it.")
    export = jobs.add_parser("export", help="Print the figures that are kept. Starts no Spark.")
    export.add_argument("--of", choices=[*EXPORTS], default="hours", help="hours without it.")
    export.add_argument("--days", type=int, default=7)
    export.add_argument("--queue")
    export.add_argument("--format", choices=["json", "csv"], default="json")


def insights(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.insights.figures import Limits
    from django_mq.pipeline.insights.job import compute

    since, until = reading.span(options["days"], datetime.now(UTC).date())
    limits = Limits(options["slo"], options["starved"])
    rows = compute(command.session(options), alias, since, until, limits)
    command.say(f"{plural(rows, 'row')} of figures written.")
    start, end = _times(options["days"])
    found = reading.summaries(alias, since=start, until=end)
    if found:
        command.say(table(HEADINGS, [_cells(one) for one in found], right=range(1, len(HEADINGS))))


def _cells(one: reading.Summary) -> tuple[str, ...]:
    return (
        one.queue,
        f"{one.arrivals:,}",
        f"{one.completions:,}",
        _seconds(one.wait_p95),
        _seconds(one.run_p95),
        f"{one.depth_max:,}",
        f"{one.slo_misses:,}",
        f"{one.inversions:,}",
        f"{one.starved:,}",
        "-" if one.fairness is None else f"{one.fairness:.2f}",
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} s"


def _times(days: int) -> tuple[datetime, datetime]:
    since, until = reading.span(days, datetime.now(UTC).date())
    start = datetime.combine(since, time.min, tzinfo=UTC)
    return start, datetime.combine(until, time.min, tzinfo=UTC) + timedelta(days=1)


def export(command: Any, alias: str, options: dict[str, Any]) -> None:
    start, end = _times(options["days"])
    fields, read = EXPORTS[options["of"]]
    rows = read(alias, start, end, options["queue"])
    if options["format"] == "json":
        command.say(json.dumps(rows))
        return
    text = io.StringIO()
    write_csv(text, fields, rows, "\n")
    command.say(text.getvalue().rstrip("\n"))


INSIGHT_JOBS: dict[str, Callable[[Any, str, dict[str, Any]], None]] = {"insights": insights, "export": export}
