"""Deliver nothing from queues, for a while or until they are resumed."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq import api
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.management.arguments import argument, more_than_zero
from django_mq.management.command import MQCommand


class Command(MQCommand):
    help = "Deliver nothing from these queues; publishing goes on. No queue is paused if one of them is unknown."
    arguments: ClassVar = (
        argument("queues", metavar="QUEUE", nargs="+"),
        argument("--reason", default="", help="Why, shown in the admin and in mq_queues."),
        argument("--seconds", type=more_than_zero, help="Resume automatically after this time."),
    )

    def run(self, alias: str, **options: Any) -> None:
        names = list(dict.fromkeys(options["queues"]))
        check_names(names, using=alias)
        for name in names:
            api.pause(name, reason=options["reason"], seconds=options["seconds"], using=alias)
        self.note(
            alias, "queue", "pause", names, reason=options["reason"], answers={"seconds": options["seconds"]}
        )
        self.answer({"paused": names}, "\n".join(f"Queue {name!r} is paused." for name in names))
