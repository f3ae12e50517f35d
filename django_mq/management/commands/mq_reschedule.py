"""Deliver messages at another time, or now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator import actions
from django_mq.delivery.validation import aware, read_time
from django_mq.management.arguments import UsageError, more_than_zero
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row


class Command(MessageCommand):
    help = (
        "Deliver scheduled and ready messages at another time, by their ids or all that match; or scheduled ones "
        "now. Values of a last-value queue stay: they are never scheduled."
    )
    verb = "rescheduled"
    states = actions.STATES["reschedule"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        when = parser.add_mutually_exclusive_group(required=True)
        when.add_argument("--at", metavar="TIME", help="2031-01-31T09:00+01:00; without an offset the site's.")
        when.add_argument("--delay", type=more_than_zero, metavar="SECONDS", help="So long from now.")
        when.add_argument("--now", action="store_true", help="The scheduled ones at once.")

    def run(self, alias: str, **options: Any) -> None:
        if options["now"]:
            self.verb, self.states = "made ready", actions.STATES["deliver_now"]
        elif options["at"] is not None:
            options["deliver_at"] = read_time(options["at"], "--at")
        else:
            options["deliver_at"] = self._later(options["delay"])
        super().run(alias, **options)

    @staticmethod
    def _later(seconds: float) -> datetime:
        try:
            return aware(datetime.now(UTC) + timedelta(seconds=seconds), "--delay")
        except OverflowError:
            raise UsageError(f"--delay {seconds:g} reaches beyond the year 9999.") from None

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:
        if options["now"]:
            return actions.deliver_now(rows, using=alias)
        return actions.reschedule(rows, options["deliver_at"], using=alias)
