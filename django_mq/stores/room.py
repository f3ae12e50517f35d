"""How much a limited queue holds, and what that means for messages on their way into it.

Everything in a queue counts, whatever its state; of a message its body. Exactly the limit is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.stores import refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import NewMessage

#: Messages looked at together while bytes are too much.
AT_LEAST_FOR_BYTES = 10


@dataclass(slots=True, kw_only=True)
class Room:
    """One queue's limits, and its contents as far as they are known: at most so much."""

    queue_id: int
    name: str
    max_messages: int | None
    max_bytes: int | None
    overflow: str
    last_value_key: str
    messages: int = 0
    size_bytes: int = 0
    #: Whether what it holds was counted just now, and is no estimate.
    exact: bool = True

    @property
    def is_limited(self) -> bool:
        """Whether there are limits at all."""
        return self.max_messages is not None or self.max_bytes is not None

    @property
    def is_ring(self) -> bool:
        """Whether older messages make room for new ones."""
        return self.is_limited and self.overflow == "ring"

    def is_exceeded(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether it would hold too much with so much more."""
        return (self.max_messages is not None and self.messages + messages > self.max_messages) or (
            self.max_bytes is not None and self.size_bytes + size_bytes > self.max_bytes
        )

    @property
    def excess(self) -> int:
        """How many messages may have to go, as far as that can be told: bytes do not say."""
        messages = 1 if self.max_messages is None else max(1, self.messages - self.max_messages)
        return messages if self.max_bytes is None else max(messages, AT_LEAST_FOR_BYTES)

    def add(self, messages: int, size_bytes: int) -> None:
        """So much more is in the queue, or, if negative, less."""
        self.messages += messages
        self.size_bytes += size_bytes

    def check(self, messages: Sequence[NewMessage]) -> None:
        """Raise QueueFull unless all of these fit."""
        wanted, size_bytes = len(messages), size_of(messages)
        if not self.is_exceeded(wanted, size_bytes):
            return
        if self.max_messages is not None and self.messages + wanted > self.max_messages:
            raise refusals.full(self.name, "messages", held=self.messages, limit=self.max_messages, wanted=wanted)
        held, limit = self.size_bytes, self.max_bytes or 0
        raise refusals.full(self.name, "bytes", held=held, limit=limit, wanted=size_bytes)

    def fitting(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return those that fit, one after the other; what is too much is left out."""
        kept: list[NewMessage] = []
        size_bytes = 0
        for message in messages:
            if not self.is_exceeded(len(kept) + 1, size_bytes + len(message.body)):
                kept.append(message)
                size_bytes += len(message.body)
        return kept


def size_of(messages: Sequence[NewMessage]) -> int:
    """The bytes that these count for."""
    return sum(len(message.body) for message in messages)
