"""Show what runs and what fails, by type."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.by_type import failures, runs
from django_mq.formats import PLAIN
from django_mq.management.arguments import ONLY_QUEUES, argument
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.rollups.series import SHORT_SPANS

if TYPE_CHECKING:
    from django_mq.diagnosis.state.by_type import Failures, Runs, Sample

RAN = ("TYPE", "QUEUE", "DONE", "WAIT 50 %", "95 %", "99 %", "HELD 50 %", "95 %", "99 %", "HELD IN ALL")
FAILED = ("EXCEPTION", "TYPE", "QUEUE", "FAILED", "LAST")
TIMES = ("wait_p50", "wait_p95", "wait_p99", "held_p50", "held_p95", "held_p99", "held_seconds")


class Command(MQCommand):
    help = "Show how long the messages of each type wait and run, and which exceptions end them."
    arguments: ClassVar = (
        ONLY_QUEUES,
        argument("--span", choices=[*SHORT_SPANS], default="hour", help="How far back to look; default: hour."),
    )

    def run(self, alias: str, **options: Any) -> None:
        span, queues = SHORT_SPANS[options["span"]], options["queues"]
        ran, failed = runs(span, queues=queues, using=alias), failures(span, queues=queues, using=alias)
        # Figures may be of a deleted queue; a mistyped name is an error.
        seen = {row.queue for row in ran.rows} | {row.queue for row in failed.rows}
        check_names([name for name in queues if name not in seen], using=alias)
        if self.as_json:
            self.answer({"span": span.name, "runs": asdict(ran), "failures": asdict(failed)}, "")
            return
        self._write(ran, "finished messages", RAN, [_run(row) for row in ran.rows], range(2, 10))
        self.stdout.write("Only those that were accepted are shown.")
        self.stdout.write("")
        self._write(failed, "failed attempts", FAILED, [_failure(row) for row in failed.rows], [3])

    def _write(
        self, sample: Sample[Any], what: str, headings: tuple[str, ...], rows: list[tuple[str, ...]], right: Any
    ) -> None:
        if rows:
            self.stdout.write(table(headings, rows, right=right))
        over = f"the newest {PLAIN.number(sample.read)}" if sample.cut else f"all {PLAIN.number(sample.read)}"
        since = PLAIN.time(sample.since)
        self.stdout.write(f"Counted over {over} {what} since {since}{': there are more' * sample.cut}.")


def _run(row: Runs) -> tuple[str, ...]:
    times = (PLAIN.precise(getattr(row, name)) for name in TIMES)
    return (row.type or "-", row.queue, PLAIN.number(row.accepted), *times)


def _failure(row: Failures) -> tuple[str, ...]:
    return (row.error, row.type or "-", row.queue, PLAIN.number(row.attempts), PLAIN.time(row.last))
