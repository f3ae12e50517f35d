"""Deliver from paused queues again."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq import api
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand


class Command(MQCommand):
    help = "Deliver from these queues again, at once. No queue is resumed if one of them is unknown."
    arguments: ClassVar = (argument("queues", metavar="QUEUE", nargs="+"),)

    def run(self, alias: str, **options: Any) -> None:
        names = list(dict.fromkeys(options["queues"]))
        check_names(names, using=alias)
        for name in names:
            api.resume(name, using=alias)
        self.note(alias, "queue", "resume", names)
        self.answer({"resumed": names}, "\n".join(f"Queue {name!r} delivers." for name in names))
