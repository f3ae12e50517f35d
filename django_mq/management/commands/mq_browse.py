"""Look at messages without taking them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.api import browse
from django_mq.diagnosis.messages import masking
from django_mq.diagnosis.messages.json_objects import as_json, seen_body
from django_mq.engine.states import CLAIMED, DEAD, READY, SCHEDULED, State
from django_mq.management.arguments import at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable, shortened, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django_mq.stores.records import Browsed

STATES: dict[str, tuple[State, ...]] = {
    state.name.lower(): (state,) for state in (READY, SCHEDULED, CLAIMED, DEAD)
}
STATES["all"] = (SCHEDULED, READY, CLAIMED, DEAD)
HEADINGS = ("MESSAGE", "STATE", "PRIORITY", "FAILED", "PUBLISHED", "TYPE", "BODY")
#: Characters of a body shown in the table.
BODY_WIDTH = 60


class Command(MQCommand):
    help = "Show the first messages of a queue, in delivery order, without taking them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("--state", choices=STATES, default="ready")
        parser.add_argument("--selector", default="", metavar="TEXT", help="Which messages: \"colour = 'red'\".")
        parser.add_argument("--limit", type=at_least_one, default=20, help="How many; 20 without it.")
        parser.add_argument(
            "--json", action="store_true", help="Print one JSON object a line, with the whole body."
        )

    def run(self, alias: str, **options: Any) -> None:
        found = browse(
            options["queue"],
            states=STATES[options["state"]],
            selector=options["selector"],
            limit=options["limit"],
            using=alias,
        )
        if options["json"]:
            for message in found:
                self.stdout.write(as_json(message))
            return
        rows = [_row(message) for message in found]
        self.stdout.write(table(HEADINGS, rows, right=(2, 3)) if rows else "Nothing there.")


def _row(message: Browsed) -> tuple[str, ...]:
    return (
        str(message.message_id),
        State(message.state).name.lower(),
        str(message.priority),
        str(message.attempts),
        f"{message.published_at:%Y-%m-%d %H:%M:%S}",
        shortened(message.type, 20),
        _remark(message),
    )


def _seen(message: Browsed) -> str:
    """As much of the body as may be seen, in a line."""
    if not masking.is_masking():
        return message.body[: BODY_WIDTH * 4].decode("utf-8", "backslashreplace")
    body = seen_body(message).get("body", masking.HIDDEN)
    return body if isinstance(body, str) else json.dumps(body)


def _remark(message: Browsed) -> str:
    """What the message says, or, of a dead one, why."""
    text = message.dead_reason or _seen(message)
    return shortened(printable(text), BODY_WIDTH)
