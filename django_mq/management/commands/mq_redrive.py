"""Return dead letters to the queues that they came from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator import redrives
from django_mq.diagnosis.state.obstacles import obstacles
from django_mq.diagnosis.state.overview import overview
from django_mq.formats import PLAIN, counted
from django_mq.management.arguments import UsageError, argument
from django_mq.management.messages import MessageCommand, is_id, read_ids
from django_mq.models import Queue
from django_mq.models.message import dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Redrive the dead letters of a queue, or those named by their ids, or all that match: dead messages "
        "become ready in their old place, those in a dead-letter queue return to the queue they came from. "
        "Their attempts start again. With --to, all ready messages of a dead-letter queue are moved, also those "
        "that were published there."
    )
    action, verb = "redrive", "redriven"
    among = dead_letters()
    left = "left", "left alone: no dead letter, or its queue is unknown, gone, full, or has it already"
    names: ClassVar = (
        argument("names", metavar="QUEUE|MESSAGE_ID", nargs="*", help="A queue, or messages; or filters:"),
    )
    arguments: ClassVar = (argument("--to", metavar="QUEUE", help="Move all of them to this queue instead."),)

    def run(self, alias: str, **options: Any) -> None:
        names = options.pop("names")
        if len(names) == 1 and not is_id(names[0]):
            if options["queue"]:
                raise UsageError("Name the queue once: QUEUE or --queue.")
            (options["queue"],) = names
            names = []
        options["ids"] = read_ids(names)
        if options["to"] is not None:
            redrives.check_target(options["to"], using=alias)
            self.among = redrives.redrivable(options["to"], using=alias)
        elif options["queue"]:
            for state in obstacles([options["queue"]], using=alias):
                word = "paused" if state.paused else "full"
                self.stderr.write(f"Warning: queue {state.name!r}, to which messages return, is {word}.")
        self.alone = options["queue"] if options["to"] is None else None
        self.back, self.queue = Counter[str](), Queue.objects.using(alias).filter(name=options["queue"])
        super().run(alias, **options)

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:
        return redrives.redrive_rows([row.id for row in rows], to=options["to"], using=alias).moved

    def count(self, rows: Sequence[ActionTarget], changed: Sequence[Any]) -> None:  # noqa: ARG002
        self.back.update(each.queue for each in changed)

    def more(self) -> tuple[dict[str, Any], list[str]]:
        back = sorted(self.back.items())
        lines = [f"  {PLAIN.number(count)} to {queue!r}" for queue, count in back]
        if not back and (name := self.queue.values_list("dead_letter_queue__name", flat=True).first()):
            lines.append(f"  Its dead letters are in {name!r}.")
        if self.alone:
            lines += _rest(self.alone, self.queue.db)
        return {"queues": dict(back)}, lines


def _rest(queue: str, alias: str) -> Iterator[str]:
    """Say of the ready messages of a dead-letter queue that were published there why they stay."""
    for state in overview([queue], using=alias):
        if state.takes_dead_letters and not state.consumers and state.unserved:
            number = counted(state.unserved, "ready message", "is")
            yield f"  {number} no dead letter{'' if state.unserved == 1 else 's'}: --to QUEUE moves all."
