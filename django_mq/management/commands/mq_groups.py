"""Show the groups of a queue and their owners, or free them from their owners."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django_mq.api import free_groups
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.groups import groups
from django_mq.formats import plural
from django_mq.management.arguments import QUEUE, argument, one_of
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.models import Queue


class Command(MQCommand):
    help = (
        "Show the groups among the first 10,000 messages of a queue, the largest first: their messages and "
        "owners. Or let one group, or all, find new owners."
    )
    arguments: ClassVar = (
        QUEUE,
        one_of(
            argument("--free", metavar="GROUP", help="Free this group from its owner."),
            argument("--free-all", action="store_true", help="Free all groups from their owners."),
        ),
    )

    def run(self, alias: str, **options: Any) -> None:
        name, group = options["queue"], options["free"]
        if group is not None or options["free_all"]:
            freed = free_groups(name, group, using=alias)
            sentence = f"{plural(freed, 'group')} of queue {name!r} freed."
            self.note(alias, "queue", "free_groups", [name], sentence=sentence)
            self.answer({"queue": name, "freed": freed}, sentence)
            return
        check_names([name], using=alias)
        found = groups(Queue.objects.using(alias).values_list("pk", flat=True).get(name=name), using=alias)
        rows = [[one.key or "-", str(one.ready), str(one.claimed), one.worker or "-"] for one in found]
        text = (
            table(["GROUP", "READY", "CLAIMED", "WORKER"], rows, right=(1, 2)) if rows else "There are no groups."
        )
        self.answer([asdict(one) for one in found], text)
