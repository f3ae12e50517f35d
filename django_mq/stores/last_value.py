"""What a last-value queue tells a message by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django_mq.engine.groups.base import header_text
from django_mq.engine.message import Message
from django_mq.errors import InvalidMessage

if TYPE_CHECKING:
    from django_mq.stores.records import NewMessage

#: Longest key, in characters; the column's length.
KEY_LENGTH = 255


def value_key(message: NewMessage, header: str) -> str | None:
    """Return the header's text, None without one: such a message replaces nothing.

    Raises InvalidMessage for a key that is too long, and for a message that is to come later:
    until then the value it replaces would have to be kept, and then be taken back.
    """
    key = key_in(message.headers, header)
    if key is None:
        return None
    if len(key) > KEY_LENGTH:
        raise InvalidMessage(f"The header {header!r} is {len(key)} characters long; at most {KEY_LENGTH} fit.")
    if message.deliver_at is not None or message.delay_seconds:
        raise InvalidMessage(
            f"Queue {message.queue_name!r} keeps the last value of each {header!r}, and takes none in advance: "
            "publish it when it holds."
        )
    return key


def key_in(headers: str, header: str) -> str | None:
    """Return a header's text as the engine reads it; None if there is none, or null, or no scalar, or no JSON."""
    try:
        found = json.loads(headers)
    except (ValueError, RecursionError):
        return None  # a row that somebody wrote by hand; it must not keep others from being moved
    return header_text(Message(id="", headers=found), header) if isinstance(found, dict) else None
