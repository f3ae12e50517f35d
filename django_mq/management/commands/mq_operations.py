"""Show the admin's operations in the background; stop some, or continue those that have stalled."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.delivery.operator.queue_editor import stop_operation
from django_mq.formats import PLAIN
from django_mq.management.arguments import argument, at_least_one, one_of
from django_mq.management.command import MQCommand, until_told
from django_mq.management.operations import take_over
from django_mq.management.tables import table
from django_mq.models import Operation

HEADINGS = ("ID", "ACTION", "STATUS", "CHANGED", "TRIED", "EXPECTED", "BY", "STARTED", "LAST PROGRESS", "")
#: Columns in JSON; times are text.
KEYS = ("id", "act", "status", "changed", "tried", "expected", "user_name", "filters", "answers", "error")


class Command(MQCommand):
    help = (
        "Show what the admin does, or has done, to all messages that match a filter, the newest first. Or stop "
        "some: they end after the running batch, and can continue from the admin. An operation without "
        "progress for a minute has lost its process: the workers' maintenance takes it over, or --take-over "
        "does."
    )
    exit_codes: ClassVar = {1: "refused, or an operation was not running, or belongs to another version"}

    arguments: ClassVar = (
        argument("--running", action="store_true", help="Only those that run."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to show; default: 20."),
        one_of(
            argument("--stop", nargs="+", type=at_least_one, metavar="ID", help="Stop these."),
            argument(
                "--take-over",
                action="store_true",
                help="Continue all that make no progress, each for its user, until they end or TERM stops them.",
            ),
        ),
    )
    json = "a JSON array, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        if options["stop"]:
            self._stop(list(dict.fromkeys(options["stop"])), alias)
            return
        if options["take_over"]:
            self._take_over(alias)
            return
        found = Operation.objects.using(alias).order_by("-id")
        if options["running"]:
            found = found.filter(status=Operation.Status.RUNNING)
        rows = list(found[: options["limit"]])
        text = table(HEADINGS, map(_row, rows), right=(0, 3, 4, 5)) if rows else "There are no operations to show."
        self.answer([_object(row) for row in rows], text)

    def _take_over(self, alias: str) -> None:
        taken, left = take_over(alias, until_told().is_set)
        self.answer({"taken_over": taken, "left": left}, f"Taken over: {taken}.")
        if left:
            ids = ", ".join(map(str, left))
            self.stderr.write(f"Left, because another version of django_mq has begun them: {ids}.")
        if left and not taken:
            raise SystemExit(1)

    def _stop(self, ids: list[int], alias: str) -> None:
        stopped = [pk for pk in ids if stop_operation(pk, using=alias)]
        left = [pk for pk in ids if pk not in stopped]
        self.note(alias, "operation", "stop", (f"#{pk}" for pk in stopped))
        if stopped or self.as_json:
            self.answer({"stopped": stopped, "not_running": left}, f"Stopped: {', '.join(map(str, stopped))}.")
        if left:
            if not self.as_json:
                self.stderr.write(f"Not running: {', '.join(map(str, left))}.")
            raise SystemExit(1)


def _object(row: Operation) -> dict[str, Any]:
    times = {"created_at": row.created_at.isoformat(), "beat_at": row.beat_at.isoformat()}
    return {key: getattr(row, key) for key in KEYS} | times


def _row(row: Operation) -> tuple[str, ...]:
    counts = (PLAIN.number(number) for number in (row.changed, row.tried, max(row.expected, row.tried)))
    times = (PLAIN.time(moment) for moment in (row.created_at, row.beat_at))
    return (str(row.pk), row.act, row.status, *counts, row.user_name, *times, row.error)
