"""Send dead letters back to where they came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator.redrives import count_redrivable, redrive
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.management.arguments import add_dry_run, add_json, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = (
        "Send the dead letters of a queue back: dead messages become ready in their old place, those of a "
        "dead-letter queue return to the queue they came from. Their attempts start again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("--to", metavar="QUEUE", help="All of them there instead.")
        parser.add_argument("--limit", type=at_least_one, metavar="N", help="At most so many, the oldest first.")
        add_dry_run(parser, what="how many would be tried, counted up to 10,000")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        name, limit = options["queue"], options["limit"]
        if options["dry_run"]:
            ceiling = COUNT_LIMIT if limit is None else min(limit, COUNT_LIMIT)
            count = count_redrivable(name, limit=ceiling, using=alias)
            text = f"{bounded(count, COUNT_LIMIT)} messages would be sent back."
            self.stdout.write(json.dumps({"would_try": count}) if options["json"] else text)
            return
        done = redrive(name, to=options["to"], limit=limit, using=alias)
        if options["json"]:
            self.stdout.write(json.dumps({"back": done.back, "stayed": done.stayed}))
            return
        self.stdout.write(f"{plural(done.total, 'message')} sent back.")
        for target, count in sorted(done.back.items()):
            self.stdout.write(f"  {count:,} to {target!r}")
        if done.stayed:
            self.stdout.write(
                f"  {done.stayed:,} stayed: their queue is gone or full or has them, or they are held."
            )
