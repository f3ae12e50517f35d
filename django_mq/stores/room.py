"""What is known of a limited queue while messages come into it. The engine's limits decide.

Everything in a queue counts, whatever its state; of a message its body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.overflow import Limits, Overflow

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
    limits: Limits
    overflow: Overflow
    last_value_key: str
    messages: int = 0
    size_bytes: int = 0
    #: Whether what it holds was counted just now, and is no estimate.
    exact: bool = True

    @property
    def is_limited(self) -> bool:
        """Whether there are limits at all."""
        return self.limits != Limits()

    @property
    def is_ring(self) -> bool:
        """Whether older messages make room for new ones."""
        return self.is_limited and self.overflow is Overflow.RING

    def is_exceeded(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether it would hold too much with so much more."""
        return self.limits.exceeded_by(self.messages + messages, self.size_bytes + size_bytes)

    @property
    def excess(self) -> int:
        """How many messages may have to go, as far as that can be told: bytes do not say."""
        most = self.limits.messages
        messages = 1 if most is None else max(1, self.messages - most)
        return messages if self.limits.size_bytes is None else max(messages, AT_LEAST_FOR_BYTES)

    def add(self, messages: int, size_bytes: int) -> None:
        """So much more is in the queue, or, if negative, less."""
        self.messages += messages
        self.size_bytes += size_bytes

    def admit(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return those of the messages that come into a queue that is no ring. Raises QueueFull."""
        sizes, drops = [len(message.body) for message in messages], self.overflow is Overflow.DROP
        fitting = self.limits.admit(self.name, sizes, self.messages, self.size_bytes, drops=drops)
        return [message for message, fits in zip(messages, fitting, strict=True) if fits]


def size_of(messages: Sequence[NewMessage]) -> int:
    """The bytes that these count for."""
    return sum(len(message.body) for message in messages)
