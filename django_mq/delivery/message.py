"""What a handler is given: a claimed message, decoded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import decode_body, decode_headers

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.records import Claimed

#: Stands for a body that nobody has asked for; None is a body like any other.
UNREAD = object()


class ReceivedMessage:
    """One delivery of one message. Decoding raises CorruptMessage, which dead-letters it."""

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed
        self._body: Any = UNREAD
        self._headers: dict[str, Any] | None = None
        self.id: UUID = claimed.message_id
        self.queue: str = claimed.queue_name
        #: 0 to 9, 9 first.
        self.priority: int = claimed.priority
        #: 1 for the first delivery; what was given back unstarted is not counted.
        self.attempt: int = claimed.attempts + 1
        #: Whether somebody was given it before.
        self.redelivered: bool = claimed.redelivered
        self.type: str = claimed.type
        self.correlation_id: str | None = claimed.correlation_id
        self.group_key: str | None = claimed.group_key
        self.published_at: datetime = claimed.published_at
        self.content_type: str = claimed.content_type

    @property
    def body(self) -> Any:
        """What was published: decoded JSON or text, or bytes."""
        if self._body is UNREAD:
            claimed = self._claimed
            self._body = decode_body(claimed.body, claimed.content_type, claimed.content_encoding)
        return self._body

    @property
    def headers(self) -> dict[str, Any]:
        """The headers."""
        if self._headers is None:
            self._headers = decode_headers(self._claimed.headers)
        return self._headers

    def __repr__(self) -> str:
        return f"<message {self.id} of {self.queue}, attempt {self.attempt}>"
