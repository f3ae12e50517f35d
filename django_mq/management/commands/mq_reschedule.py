"""Deliver messages at another time, or now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator import actions
from django_mq.delivery.operator.named import due_at
from django_mq.delivery.validation import read_time
from django_mq.management.arguments import argument, more_than_zero, one_of
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Deliver scheduled, ready and parked messages at another time, by their ids or all that match; or those "
        "that are not ready now. Values of a last-value queue keep their times, and can only be delivered now."
    )
    action, verb = "reschedule", "rescheduled"
    arguments: ClassVar = (
        one_of(
            argument("--at", metavar="TIME", help="2031-01-31T09:00+01:00; without an offset in the site's zone."),
            argument("--delay", type=more_than_zero, metavar="SECONDS", help="After so many seconds."),
            argument("--now", action="store_true", help="Scheduled messages at once."),
            required=True,
        ),
    )

    def run(self, alias: str, **options: Any) -> None:
        if options["now"]:
            self.action, self.verb = "deliver_now", "made ready"
        elif options["at"] is not None:
            options["deliver_at"] = read_time(options["at"], "--at")
        else:
            options["deliver_at"] = due_at(None, options["delay"], "--delay")
        super().run(alias, **options)

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:
        if options["now"]:
            return actions.deliver_now(rows, using=alias)
        return actions.reschedule(rows, options["deliver_at"], using=alias)
