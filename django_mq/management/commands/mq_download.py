"""Print messages for a file, without taking them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.diagnosis.messages.exports import csv_lines, json_lines
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.engine.states import CLAIMED, DEAD, PARKED, READY, SCHEDULED
from django_mq.management.arguments import argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.messages import FILTER_ARGUMENTS, read_filters
from django_mq.management.tables import printable
from django_mq.models import Message

#: The values of the list's filter of states.
STATES = {state.name.lower(): str(state.value) for state in (READY, SCHEDULED, PARKED, CLAIMED, DEAD)}
STATES["letters"] = DEAD_LETTERS


class Command(MQCommand):
    help = "Print all messages that match every filter given, the oldest first, without taking them."
    arguments: ClassVar = (
        *FILTER_ARGUMENTS,
        argument("--state", choices=STATES, help="This state only; letters: all dead letters."),
        argument("--limit", type=at_least_one, metavar="N", help="At most so many."),
        argument("--csv", action="store_true", help="Print CSV instead of one JSON object a line."),
    )
    json = ""

    def run(self, alias: str, **options: Any) -> None:
        filters = read_filters(alias, options)
        if options["state"]:
            filters["state"] = STATES[options["state"]]
        found = narrowed(Message.objects.using(alias), filters, datetime.now(UTC))
        lines = csv_lines if options["csv"] else json_lines
        is_terminal = self.stdout.isatty()
        for line in lines(found, limit=options["limit"]):
            # A body may contain characters that control a terminal.
            self.stdout.write(printable(line.rstrip()) + "\n" if is_terminal else line, ending="")
