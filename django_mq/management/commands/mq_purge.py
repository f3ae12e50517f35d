"""Remove every message of a queue that nobody holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.api import purge
from django_mq.diagnosis.state.overview import COUNT_LIMIT, overview
from django_mq.management.arguments import add_dry_run, add_json
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import confirm
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Remove every ready, scheduled and dead message of a queue. What workers have claimed stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("--yes", action="store_true", help="Do not ask.")
        add_dry_run(parser, what="what would be removed, counted up to 10,000 for each state")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        name, as_json = options["queue"], options["json"]
        counts = self._holdings(name, alias)
        holds = ", ".join(f"{bounded(count, COUNT_LIMIT)} {state}" for state, count in counts.items())
        if options["dry_run"]:
            text = f"{holds} would be removed from queue {name!r}."
            self.stdout.write(json.dumps({"queue": name, "would_remove": counts}) if as_json else text)
            return
        if not options["yes"]:
            question = f"Remove {holds} from queue {name!r} of database {alias!r}?"
            confirm(question, otherwise="Nothing was removed.")
        gone = purge(name, using=alias)
        text = f"{plural(gone, 'message')} removed from queue {name!r}."
        self.stdout.write(json.dumps({"queue": name, "removed": gone}) if as_json else text)

    @staticmethod
    def _holdings(name: str, alias: str) -> dict[str, int]:
        (queue,) = overview([name], using=alias)
        return {"ready": queue.ready, "scheduled": queue.scheduled, "dead": queue.dead}
