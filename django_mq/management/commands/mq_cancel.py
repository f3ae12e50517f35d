"""Remove messages that no worker has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator import actions
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget


class Command(MessageCommand):
    help = (
        "Remove messages by their ids, or all that match. Messages that a worker has begun stay, and "
        "those that Celery holds, because they may be running."
    )
    exit_codes: ClassVar = {1: "refused, or not every message was removed"}
    action, verb = "cancel", "removed"
    left = (
        "held",
        (
            "held by a worker. What has begun is not interrupted: wait until it ends. Or pause its queue "
            "(mq_pause), take it from the worker (mq_release), which may still finish it, and cancel it then"
        ),
    )
    asks = narrows = recalls = True

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> int:  # noqa: ARG002
        return len(actions.cancel(rows, using=alias))
