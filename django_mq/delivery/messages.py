"""The messages that your code gets: decoded, and without the claim token that a worker needs to settle."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import decode_body, decode_headers
from django_mq.engine.states import State

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.records import Browsed, Claimed


class DecodedMessage:
    """A stored message. Reading a body or headers that cannot be decoded raises CorruptMessage."""

    def __init__(self, stored: Claimed | Browsed) -> None:
        self._stored = stored
        self.id: UUID = stored.message_id
        self.queue: str = stored.queue_name
        #: 0 to 9, 9 first.
        self.priority: int = stored.priority
        self.type: str = stored.type
        self.correlation_id: str | None = stored.correlation_id
        self.published_at: datetime = stored.published_at
        self.content_type: str = stored.content_type

    @cached_property
    def body(self) -> Any:
        """The body that was published: decoded JSON or text, or bytes."""
        return decode_body(self._stored.body, self._stored.content_type, self._stored.content_encoding)

    @cached_property
    def headers(self) -> dict[str, Any]:
        """The headers that were published."""
        return decode_headers(self._stored.headers)


class ReceivedMessage(DecodedMessage):
    """One delivery of a message to a handler. A message that cannot be decoded becomes a dead letter."""

    def __init__(self, claimed: Claimed) -> None:
        super().__init__(claimed)
        #: 1 for the first attempt. A delivery that was given back before the handler began is not counted.
        self.attempt: int = claimed.attempts + 1
        #: Whether the message was delivered before.
        self.redelivered: bool = claimed.redelivered
        self.group_key: str | None = claimed.group_key
        self._claimed = claimed

    def changed(self, **stored: Any) -> ReceivedMessage:
        """Return the message as a middleware gives it on: with another ``body`` in bytes, ``content_type``, ..."""
        return ReceivedMessage(replace(self._claimed, **stored))

    def __repr__(self) -> str:
        return f"<message {self.id} of {self.queue}, attempt {self.attempt}>"


class BrowsedMessage(DecodedMessage):
    """A message as ``browse`` returns it."""

    def __init__(self, browsed: Browsed) -> None:
        super().__init__(browsed)
        self.state = State(browsed.state)
        #: How many attempts have failed.
        self.attempts: int = browsed.attempts
        self.deliver_at: datetime | None = browsed.deliver_at
        self.expires_at: datetime | None = browsed.expires_at
        #: Why it is a dead letter; blank for other messages.
        self.dead_reason: str = browsed.dead_reason

    def __repr__(self) -> str:
        return f"<message {self.id} of {self.queue}, {self.state.name.lower()}>"
