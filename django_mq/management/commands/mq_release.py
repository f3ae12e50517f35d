"""Take messages from the workers that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row


class Command(MessageCommand):
    help = (
        "Take messages from their workers, by their ids or all that match: they are ready again in their old "
        "place. A worker that is still at work on one does not notice: the message may be worked on twice, and "
        "what that worker reports is ignored."
    )
    verb = "released"
    states = actions.STATES["release"]
    asks = True

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:  # noqa: ARG002 - as everywhere
        return actions.release(rows, using=alias)
