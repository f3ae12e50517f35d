"""Give dead messages another chance, one by one or all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.delivery.operator.redrives import dead_letters
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row


class Command(MessageCommand):
    help = (
        "Retry dead letters by their ids, or all that match: dead messages become ready in their old place, those "
        "in a dead-letter queue return to the queue they came from. Their attempts start again. For all "
        "dead letters of a queue there is mq_redrive."
    )
    verb = "retried"
    states = actions.STATES["retry"]
    among = dead_letters()
    left = "left", "left alone: no dead letter, or its queue is gone or full or has it already"

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:  # noqa: ARG002 - as everywhere
        return actions.retry(rows, using=alias)
