"""Deliver from paused queues again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.management.arguments import add_json
from django_mq.management.command import MQCommand
from django_mq.management.pausing import resume_all

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Deliver from these queues again, at once. Nothing is resumed if one of them is unknown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="+")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        said = resume_all(options["queues"], using=alias)
        self.stdout.write(json.dumps({"resumed": options["queues"]}) if options["json"] else "\n".join(said))
