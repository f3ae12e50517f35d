"""What a last-value queue tells a message by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.groups.base import header_text
from django_mq.engine.last_value import check_value
from django_mq.engine.message import Message
from django_mq.stores.values import headers_in

if TYPE_CHECKING:
    from django_mq.stores.records import NewMessage


def value_key(message: NewMessage, header: str) -> str | None:
    """Return the header's text, None without one: such a message replaces nothing.

    Raises InvalidMessage for what cannot be a value.
    """
    key = key_in(message.headers, header)
    if key is not None:
        is_later = message.deliver_at is not None or bool(message.delay_seconds)
        check_value(message.queue_name, header, key, is_later=is_later)
    return key


def key_in(headers: str, header: str) -> str | None:
    """Return a header's text as the engine reads it; None if there is none, or null, or no scalar, or no JSON."""
    return header_text(Message(id="", headers=headers_in(headers)), header)
