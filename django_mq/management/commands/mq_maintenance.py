"""Do by hand, or from cron, what every worker does on the side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.maintenance import keep_up, run_maintenance_to_the_end
from django_mq.management.arguments import add_json
from django_mq.management.command import MQCommand, until_told
from django_mq.management.operations import take_over
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = (
        "Give back the messages of dead workers, deliver what is due, drop what has expired, prune the history, "
        "go on with operations of the admin that have stalled. "
        "Every worker does so by itself; where none runs, this does."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--loop", action="store_true", help="Go on until TERM or INT.")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        store = private_store(alias)
        try:
            if options["loop"]:
                keep_up(store, until_told())
            else:
                done = run_maintenance_to_the_end(store)
                taken, _ = take_over(alias)
                self._say(done | {"taken_over": taken}, as_json=options["json"])
        finally:
            store.close()

    def _say(self, done: dict[str, int], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(done))
            return
        self.stdout.write(
            "{reaped} dead sessions reaped, {released} messages given back; {promoted} due messages made ready, "
            "{expired} expired; {pruned} old rows pruned; {taken_over} operations taken over.".format(**done)
        )
