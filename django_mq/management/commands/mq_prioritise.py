"""Give messages another priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row


class Command(MessageCommand):
    help = (
        "Give ready and scheduled messages another priority, by their ids or all that match. They stand at the "
        "tail of their new level."
    )
    verb = "given that priority"
    states = actions.STATES["prioritise"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        words = "0 to 9, 9 first."
        parser.add_argument("--to", type=int, choices=range(10), required=True, metavar="PRIORITY", help=words)

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:
        return actions.prioritise(rows, options["to"], using=alias)
