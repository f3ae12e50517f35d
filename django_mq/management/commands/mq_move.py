"""Move messages from one queue to another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.delivery.moving import ORDER, count_movable, move_all
from django_mq.diagnosis.overview import COUNT_LIMIT
from django_mq.management.arguments import add_dry_run, add_json, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser

STATES = {state.name.lower(): state for state in ORDER}


class Command(MQCommand):
    help = "Move messages to the tail of another queue, in batches; their attempts start again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("source", metavar="QUEUE", help="From here.")
        parser.add_argument("target", metavar="TARGET", help="To this queue.")
        parser.add_argument("--state", choices=STATES, default="dead", help="Which messages; the dead without it.")
        parser.add_argument("--limit", type=at_least_one, metavar="N", help="Move at most so many.")
        add_dry_run(parser, what="how many would be moved, counted up to 10,000")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        source, target, limit = options["source"], options["target"], options["limit"]
        state = STATES[options["state"]]
        if options["dry_run"]:
            ceiling = COUNT_LIMIT if limit is None else min(limit, COUNT_LIMIT)
            count = count_movable(source, target, state=state, limit=ceiling, using=alias)
            text = f"{bounded(count, COUNT_LIMIT)} {options['state']} messages would be moved."
            self.stdout.write(json.dumps({"would_move": count}) if options["json"] else text)
            return
        moved = move_all(source, target, state=state, limit=limit, using=alias)
        text = f"{plural(moved, 'message')} moved from {source!r} to {target!r}."
        self.stdout.write(json.dumps({"moved": moved}) if options["json"] else text)
