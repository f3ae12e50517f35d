"""Move messages from one queue to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.delivery.moving import ORDER, count_movable, move_all
from django_mq.diagnosis.overview import COUNT_LIMIT
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser

STATES = {state.name.lower(): state for state in ORDER}


class Command(MQCommand):
    help = "Move messages to the tail of another queue, in batches; their attempts start again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("source", metavar="SOURCE")
        parser.add_argument("target", metavar="TARGET")
        parser.add_argument("--state", choices=STATES, default="dead", help="Which messages; the dead without it.")
        parser.add_argument("--limit", type=int, metavar="N", help="Move at most so many.")
        parser.add_argument("--dry-run", action="store_true", help="Only say how many would be moved.")

    def run(self, alias: str, **options: Any) -> None:
        source, target, limit = options["source"], options["target"], options["limit"]
        if limit is not None and limit < 1:
            raise CommandError("--limit must be 1 or more.")
        state = STATES[options["state"]]
        if options["dry_run"]:
            ceiling = COUNT_LIMIT if limit is None else min(limit, COUNT_LIMIT)
            count = count_movable(source, target, state=state, limit=ceiling, using=alias)
            self.stdout.write(f"{bounded(count, COUNT_LIMIT)} {options['state']} messages would be moved.")
            return
        moved = move_all(source, target, state=state, limit=limit, using=alias)
        self.stdout.write(f"{plural(moved, 'message')} moved from {source!r} to {target!r}.")
