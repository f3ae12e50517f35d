"""Show how far the admin's operations in the background are; stop some, or go on with those that have stalled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator.queue_editor import stop_operation
from django_mq.management.arguments import add_json, at_least_one
from django_mq.management.command import MQCommand, until_told
from django_mq.management.operations import take_over
from django_mq.management.tables import table
from django_mq.models import Operation

if TYPE_CHECKING:
    from argparse import ArgumentParser

HEADINGS = ("ID", "ACTION", "STATUS", "CHANGED", "TRIED", "EXPECTED", "BY", "STARTED", "LAST PROGRESS", "")
#: Columns in JSON; times are text.
KEYS = ("id", "act", "status", "changed", "tried", "expected", "user_name", "filters", "answers", "error")


class Command(MQCommand):
    help = (
        "Show what the admin does, or has done, to all messages that match a filter, the newest first. Or stop "
        "some: they end after the batch that runs, and can go on from the admin. One that makes no progress for a "
        "minute has lost its process: the workers' maintenance takes it over, or --take-over does."
    )
    exit_codes: ClassVar = {1: "refused, or one of them was not running, or is another version's"}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--running", action="store_true", help="Only those that run.")
        parser.add_argument("--limit", type=at_least_one, default=20, metavar="N", help="How many; 20 without it.")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--stop", nargs="+", type=at_least_one, metavar="ID", help="Stop these.")
        words = "Go on with all that make no progress, each with its user's rights, until they or TERM end it."
        which.add_argument("--take-over", action="store_true", help=words)
        add_json(parser, what="a JSON array, or an object of what was done")

    def run(self, alias: str, **options: Any) -> None:
        if options["stop"]:
            self._stop(options["stop"], alias, as_json=options["json"])
            return
        if options["take_over"]:
            self._take_over(alias, as_json=options["json"])
            return
        found = Operation.objects.using(alias).order_by("-id")
        if options["running"]:
            found = found.filter(status=Operation.Status.RUNNING)
        rows = list(found[: options["limit"]])
        if options["json"]:
            self.stdout.write(json.dumps([_object(row) for row in rows], indent=2))
        else:
            right = (0, 3, 4, 5)
            text = table(HEADINGS, map(_row, rows), right=right) if rows else "There is no such operation."
            self.stdout.write(text)

    def _take_over(self, alias: str, *, as_json: bool) -> None:
        taken, left = take_over(alias, until_told().is_set)
        self.stdout.write(json.dumps({"taken_over": taken, "left": left}) if as_json else f"Taken over: {taken}.")
        if left:
            ids = ", ".join(map(str, left))
            self.stderr.write(f"Left, because another version of django_mq has begun them: {ids}.")
        if left and not taken:
            raise SystemExit(1)

    def _stop(self, ids: list[int], alias: str, *, as_json: bool) -> None:
        stopped = [pk for pk in dict.fromkeys(ids) if stop_operation(pk, using=alias)]
        left = [pk for pk in dict.fromkeys(ids) if pk not in stopped]
        if as_json:
            self.stdout.write(json.dumps({"stopped": stopped, "not_running": left}))
        elif stopped:
            self.stdout.write(f"Stopped: {', '.join(map(str, stopped))}.")
        if left and not as_json:
            self.stderr.write(f"Not running: {', '.join(map(str, left))}.")
        if left:
            raise SystemExit(1)


def _object(row: Operation) -> dict[str, Any]:
    times = {"created_at": row.created_at.isoformat(), "beat_at": row.beat_at.isoformat()}
    return {key: getattr(row, key) for key in KEYS} | times


def _row(row: Operation) -> tuple[str, ...]:
    counts = (f"{number:,}" for number in (row.changed, row.tried, max(row.expected, row.tried)))
    times = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (row.created_at, row.beat_at))
    return (str(row.pk), row.act, row.status, *counts, row.user_name, *times, row.error)
