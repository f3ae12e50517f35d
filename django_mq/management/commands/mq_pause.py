"""Deliver nothing from queues, for a while or until resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq import api
from django_mq.diagnosis.overview import overview
from django_mq.management.command import MQCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Deliver nothing from these queues; publishing goes on. Nothing is paused if one of them is unknown."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="+")
        parser.add_argument("--reason", default="", help="Shown to everybody who wonders why nothing moves.")
        parser.add_argument("--seconds", type=float, help="Resume by itself after so long.")

    def run(self, alias: str, **options: Any) -> None:
        overview(options["queues"], using=alias)
        for name in options["queues"]:
            api.pause(name, reason=options["reason"], seconds=options["seconds"], using=alias)
            self.stdout.write(f"Queue {name!r} is paused.")
