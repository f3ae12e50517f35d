"""Remove messages that nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.operator import actions
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row


class Command(MessageCommand):
    help = (
        "Remove messages by their ids, or all that match. What a worker holds stays: it may be running. "
        "One that was not removed is named."
    )
    exit_codes: ClassVar = {1: "refused, or not every message was removed"}
    verb = "removed"
    states = actions.STATES["cancel"]
    left = "held", "held by a worker"
    asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        names = sorted(state.name.lower() for state in self.states)
        parser.add_argument("--state", choices=names, help="Of those that match, the ones in this state.")

    def run(self, alias: str, **options: Any) -> None:
        self.narrow(options["state"], ids=options["ids"])
        super().run(alias, **options)

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:  # noqa: ARG002 - as everywhere
        return actions.cancel(rows, using=alias)
