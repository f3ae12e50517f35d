"""Acknowledge dead letters, so that they are no alert any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.management.arguments import argument
from django_mq.management.messages import MessageCommand
from django_mq.models.message import dead_letters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget


class Command(MessageCommand):
    help = (
        "Acknowledge the dead letters named by their ids, or all that match: they stay where they are, and the "
        "overview, mq_health and the health page do not count them any more, unless they die again."
    )
    action, verb = "acknowledge", "acknowledged"
    among = dead_letters()
    left = "left", "left alone: no dead letter"
    why = staticmethod(
        argument("--why", required=True, metavar="TEXT", help="The reason, at most 200 characters.")
    )

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[int]:
        return actions.acknowledge(rows, options["why"][:200], using=alias)
