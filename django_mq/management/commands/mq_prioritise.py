"""Give messages another priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator import actions
from django_mq.management.arguments import argument
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Give ready, scheduled and parked messages another priority, by their ids or all that match. They go to "
        "the tail of their new level."
    )
    action, verb = "prioritise", "given that priority"
    arguments: ClassVar = (
        argument("--to", type=int, choices=range(10), required=True, metavar="PRIORITY", help="0 to 9, 9 first."),
    )

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:
        return actions.prioritise(rows, options["to"], using=alias)
