"""Deliver nothing from queues, for a while or until resumed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.management.arguments import add_json, add_pause
from django_mq.management.command import MQCommand
from django_mq.management.pausing import pause_all

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Deliver nothing from these queues; publishing goes on. Nothing is paused if one of them is unknown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="+")
        add_pause(parser)
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        names, reason, seconds = options["queues"], options["reason"], options["seconds"]
        said = pause_all(names, reason=reason, seconds=seconds, using=alias)
        self.stdout.write(json.dumps({"paused": names}) if options["json"] else "\n".join(said))
