"""Remove every message of a queue that nobody holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.api import purge
from django_mq.diagnosis.overview import COUNT_LIMIT, overview
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Remove every ready, scheduled and dead message of a queue. What workers have claimed stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("--yes", action="store_true", help="Do not ask.")
        parser.add_argument("--dry-run", action="store_true", help="Only say what would be removed.")

    def run(self, alias: str, **options: Any) -> None:
        name = options["queue"]
        holds = self._holdings(name, alias)
        if options["dry_run"]:
            self.stdout.write(f"{holds} would be removed from queue {name!r}.")
            return
        if not options["yes"]:
            self._ask(f"Remove {holds} from queue {name!r} of database {alias!r}? [yes/no] ")
        self.stdout.write(f"{plural(purge(name, using=alias), 'message')} removed from queue {name!r}.")

    @staticmethod
    def _holdings(name: str, alias: str) -> str:
        (queue,) = overview([name], using=alias)
        counts = {"ready": queue.ready, "scheduled": queue.scheduled, "dead": queue.dead}
        return ", ".join(f"{bounded(count, COUNT_LIMIT)} {state}" for state, count in counts.items())

    @staticmethod
    def _ask(question: str) -> None:
        if not sys.stdin.isatty():
            raise CommandError("Nobody is there to be asked; say --yes.")
        if input(question).strip().lower() not in {"y", "yes"}:
            raise CommandError("Nothing was removed.")
