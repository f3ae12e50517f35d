"""Remove all messages of a queue that no worker has begun."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.acts import recorder
from django_mq.api import purge
from django_mq.diagnosis.state.overview import overview
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import QUEUE, WHY, argument
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason, confirm


class Command(MQCommand):
    help = (
        "Remove all ready, scheduled, parked and dead messages of a queue, and what workers have prefetched and "
        "not begun. What they have begun stays."
    )
    arguments: ClassVar = (QUEUE, argument("--yes", action="store_true", help="Do not ask."), WHY)
    dry_run = "what would be removed, counted up to 10,000 for each state"

    def run(self, alias: str, **options: Any) -> None:
        name = options["queue"]
        (queue,) = overview([name], using=alias)
        counts = {"ready": queue.ready, "scheduled": queue.scheduled, "dead": queue.dead}
        if queue.parked:
            counts["parked"] = queue.parked
        holds = ", ".join(f"{PLAIN.bounded(count)} {state}" for state, count in counts.items())
        if options["dry_run"]:
            text = f"{holds} would be removed from queue {name!r}."
            self.answer({"queue": name, "would_remove": counts}, text)
            return
        if not options["yes"]:
            question = f"Remove {holds} from queue {name!r} of database {alias!r}?"
            confirm(question, otherwise="Nothing was removed.")
        why = ask_reason(lambda _limit: sum(counts.values()), options["why"], yes=options["yes"])
        with recorder.recorded(self.new_act("queue", "purge", about=name, reason=why), using=alias) as act:
            act.count = gone = purge(name, using=alias)
            act.sentence = f"{plural(gone, 'message')} removed from queue {name!r}."
        (queue,) = overview([name], using=alias)
        left = f" Held by workers, and left: {queue.claimed}." if queue.claimed else ""
        text = f"{plural(gone, 'message')} removed from queue {name!r}.{left}"
        self.answer({"queue": name, "removed": gone, "held": queue.claimed}, text)
