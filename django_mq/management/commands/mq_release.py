"""Take messages from the workers that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Take messages from their workers, by their ids or all that match. The messages are ready again in their "
        "old places. A worker that handles such a message goes on with it, so it may be handled twice; the result "
        "of the first worker is ignored."
    )
    action, verb = "release", "released"
    asks = True

    def run(self, alias: str, **options: Any) -> None:
        self.released = 0
        super().run(alias, **options)

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:  # noqa: ARG002
        return actions.release(rows, using=alias)

    def count(self, rows: Sequence[ActionTarget], changed: Sequence[Moved] | Sequence[int]) -> None:  # noqa: ARG002
        self.released += len(changed)

    def more(self) -> tuple[dict[str, Any], list[str]]:
        advice = (
            "  Any worker may take it at once, also the one that held it. To prevent that, tell that worker "
            "before to take no new work (mq_workers --quiet NAME), or pause the queue (mq_pause QUEUE)."
        )
        return {}, [advice] if self.released else []
