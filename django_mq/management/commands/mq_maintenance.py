"""Do the maintenance that every worker does."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq import conf
from django_mq.delivery.consumer.duties import run_maintenance_to_the_end
from django_mq.delivery.consumer.maintenance import maintain
from django_mq.formats import PLAIN
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand, until_told
from django_mq.management.operations import take_over
from django_mq.stores.registry import private_store

TEXT = (
    "{reaped} dead sessions reaped, {released} messages given back; {promoted} due messages made ready, "
    "{expired} expired; {pruned} old rows pruned; {taken_over} operations taken over."
)


#: What the answer always has, besides what else was changed.
FIGURES = (
    *("shortened", "reaped", "released", "promoted", "expired"),
    *("unwanted", "uncovered", "trimmed", "deleted", "pruned"),
)


class Command(MQCommand):
    help = (
        "Give back the messages of dead workers, make due messages ready, remove expired messages, prune the "
        "history, and continue stalled operations of the admin. Every worker does this; run the command where no "
        "worker runs."
    )
    arguments: ClassVar = (argument("--loop", action="store_true", help="Repeat until the signal TERM or INT."),)

    def run(self, alias: str, **options: Any) -> None:
        store = private_store(alias)
        try:
            if options["loop"]:
                seconds = conf.load().MAINTENANCE_SECONDS
                self.stdout.write(f"Doing the maintenance of database {alias!r} every {PLAIN.precise(seconds)}.")
                self.stdout.flush()
                maintain(store, until_told())
                return
            done = dict.fromkeys(FIGURES, 0) | run_maintenance_to_the_end(store)
            done["taken_over"], _ = take_over(alias)
            self.answer(done, TEXT.format(**done))
        finally:
            store.close()
