"""Remove messages that no worker has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.acts import recorder
from django_mq.delivery.operator import actions
from django_mq.engine.states import CLAIMED, State
from django_mq.formats import PLAIN
from django_mq.management.arguments import argument
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Remove messages by their ids, or all that match. Messages that a worker has begun stay, and "
        "those that Celery holds, because they may be running; with --running, their workers stop and remove them."
    )
    exit_codes: ClassVar = {1: "refused, or not every message was removed"}
    action, verb = "cancel", "removed"
    left = "held", "held by a worker: wait until it ends, or stop what runs with --running"
    asks = narrows = True
    arguments: ClassVar = (
        argument("--running", action="store_true", help="Also stop what runs: its worker removes the message."),
    )

    def run(self, alias: str, **options: Any) -> None:
        self.asked, self.recalls = 0, not options["running"]
        super().run(alias, **options)

    def fitting(self, options: dict[str, Any]) -> frozenset[State]:
        stopped = actions.STATES["stop"] if options["running"] else frozenset[State]()
        return super().fitting(options) | stopped

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[int]:
        held = [row for row in rows if row.state == CLAIMED] if options["running"] else []
        return [*actions.cancel(rows, using=alias), *(actions.stop(held, using=alias) if held else ())]

    def count(self, rows: Sequence[ActionTarget], changed: Sequence[Moved] | Sequence[int]) -> None:
        self.asked += len({row.id for row in rows if row.state == CLAIMED} & {*changed})

    def beyond(self, missing: Sequence[UUID], alias: str, options: dict[str, Any]) -> Collection[UUID]:
        """Have workers stop tasks that were acknowledged when they began."""
        asked = recorder.stop_begun(self.act, missing, using=alias) if options["running"] else {}
        self.asked += len(asked)
        return asked

    def more(self) -> tuple[dict[str, Any], list[str]]:
        words = f"  Workers still have to stop {PLAIN.number(self.asked)} of them."
        return {"stopping": self.asked}, [words] if self.asked else []
