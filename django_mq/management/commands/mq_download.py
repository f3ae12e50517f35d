"""Print messages for a file, without taking them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.diagnosis.messages.exports import csv_lines, json_lines
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.engine.states import CLAIMED, DEAD, READY, SCHEDULED
from django_mq.management.arguments import at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.messages import add_filters, read_filters
from django_mq.management.tables import printable
from django_mq.models import Message

if TYPE_CHECKING:
    from argparse import ArgumentParser

#: As the list's filter of states has them.
STATES = {state.name.lower(): str(state.value) for state in (READY, SCHEDULED, CLAIMED, DEAD)}
STATES["letters"] = DEAD_LETTERS


class Command(MQCommand):
    help = "Print all messages that match every filter given, the oldest first, without taking them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_filters(parser)
        parser.add_argument(
            "--state", choices=STATES, help="Those in this state; letters: dead ones, also in dead-letter queues."
        )
        parser.add_argument("--limit", type=at_least_one, metavar="N", help="At most so many.")
        parser.add_argument("--csv", action="store_true", help="Print CSV instead of one JSON object a line.")

    def run(self, alias: str, **options: Any) -> None:
        filters = read_filters(alias, options)
        if options["state"]:
            filters["state"] = STATES[options["state"]]
        found = narrowed(Message.objects.using(alias), filters, datetime.now(UTC))
        lines = csv_lines if options["csv"] else json_lines
        watched = self.stdout.isatty()
        for line in lines(found, limit=options["limit"]):
            # In a file it stands as it is; a terminal would carry out what a body tells it.
            self.stdout.write(printable(line.rstrip()) + "\n" if watched else line, ending="")
