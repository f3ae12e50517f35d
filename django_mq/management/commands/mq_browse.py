"""Look at messages without taking them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.delivery.codecs import ENCRYPTED
from django_mq.delivery.operator.browser import browsed
from django_mq.diagnosis.messages import masking
from django_mq.diagnosis.messages.json_objects import as_json, seen_body
from django_mq.engine.states import CLAIMED, DEAD, PARKED, READY, SCHEDULED, State, is_retrying
from django_mq.formats import PLAIN
from django_mq.management.arguments import QUEUE, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable, shortened, table

if TYPE_CHECKING:
    from django_mq.stores.records import Browsed

STATES: dict[str, tuple[State, ...]] = {
    state.name.lower(): (state,) for state in (READY, SCHEDULED, PARKED, CLAIMED, DEAD)
}
STATES["all"] = (SCHEDULED, READY, PARKED, CLAIMED, DEAD)
HEADINGS = ("MESSAGE", "STATE", "PRIORITY", "FAILED", "PUBLISHED", "TYPE", "BODY")
#: Characters of a body in the table.
BODY_WIDTH = 60


class Command(MQCommand):
    help = "Show the first messages of a queue, in delivery order, without taking them."
    arguments: ClassVar = (
        QUEUE,
        argument("--state", choices=STATES, default="ready"),
        argument("--selector", default="", metavar="TEXT", help="Which messages: \"colour = 'red'\"."),
        argument("--limit", type=at_least_one, help="How many to show; default: 20, with --follow all."),
        argument("--follow", action="store_true", help="Also show each new message, in any state, until INT."),
        argument("--from-tail", action="store_true", help="With --follow: only those that arrive from now on."),
    )
    json = "one JSON object a line, with the whole body"

    def run(self, alias: str, **options: Any) -> None:
        following = options["follow"]
        found = browsed(
            options["queue"],
            states=STATES[options["state"]],
            selector=options["selector"],
            limit=options["limit"] or (None if following else 20),
            following=following,
            from_tail=options["from_tail"],
            using=alias,
        )
        if self.as_json or following:
            for message in found:
                self.stdout.write(as_json(message) if self.as_json else "  ".join(filter(None, _row(message))))
                self.stdout.flush()
            return
        shown = [(_row(message), message.dead_reason) for message in found]
        # Only dead letters have a reason.
        reasons = ("REASON",) if any(reason for _, reason in shown) else ()
        rows = [(*row, shortened(printable(reason), BODY_WIDTH)) if reasons else row for row, reason in shown]
        self.stdout.write(table((*HEADINGS, *reasons), rows, right=(2, 3)) if rows else "Nothing there.")


def _row(message: Browsed) -> tuple[str, ...]:
    return (
        str(message.message_id),
        "retrying" if is_retrying(message.state, message.attempts) else State(message.state).name.lower(),
        str(message.priority),
        str(message.attempts),
        PLAIN.time(message.published_at),
        shortened(message.type, 20),
        shortened(printable(_seen(message)), BODY_WIDTH),
    )


def _seen(message: Browsed) -> str:
    """Return as much of the body as the masking shows, and nothing of an encrypted one."""
    if not masking.is_masking() and message.content_encoding != ENCRYPTED:
        return message.body[: BODY_WIDTH * 4].decode("utf-8", "backslashreplace")
    body = seen_body(message).get("body", masking.HIDDEN)
    return body if isinstance(body, str) else json.dumps(body)
