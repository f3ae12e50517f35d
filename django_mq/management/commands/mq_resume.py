"""Deliver from paused queues again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq import api
from django_mq.diagnosis.overview import overview
from django_mq.management.command import MQCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Deliver from these queues again, at once. Nothing is resumed if one of them is unknown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="+")

    def run(self, alias: str, **options: Any) -> None:
        overview(options["queues"], using=alias)
        for name in options["queues"]:
            api.resume(name, using=alias)
            self.stdout.write(f"Queue {name!r} delivers.")
