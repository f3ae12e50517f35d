"""The volatile lane: bindings and messages that nobody may rely on."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime


class VolatileBinding(NamedTuple):
    """What makes a binding one and the same."""

    exchange: str
    pattern: str
    queue: str


class VolatileMessage(NamedTuple):
    """One copy, for one queue."""

    queue: str
    payload: str
    expires_at: datetime


@dataclass(slots=True)
class Lane:
    """The lane of one broker."""

    #: Each binding with the time at which it ends unless it is renewed.
    bindings: dict[VolatileBinding, datetime] = field(default_factory=dict)
    #: Oldest first.
    messages: list[VolatileMessage] = field(default_factory=list)

    def take(self, queues: Container[str], limit: int, now: datetime) -> list[VolatileMessage]:
        """Take out the oldest living messages of these queues."""
        items = enumerate(self.messages)
        living = (index for index, item in items if item.queue in queues and item.expires_at > now)
        taken = list(islice(living, limit))
        return [self.messages.pop(index) for index in reversed(taken)][::-1]

    def drop(self, queue: str) -> int:
        """Forget a queue; return how many messages it held."""
        self.bindings = {binding: end for binding, end in self.bindings.items() if binding.queue != queue}
        kept = [item for item in self.messages if item.queue != queue]
        dropped, self.messages = len(self.messages) - len(kept), kept
        return dropped

    def prune(self, now: datetime) -> int:
        """Drop what is past its time; return how much that was."""
        before = len(self.bindings) + len(self.messages)
        self.bindings = {binding: end for binding, end in self.bindings.items() if end >= now}
        self.messages = [item for item in self.messages if item.expires_at >= now]
        return before - len(self.bindings) - len(self.messages)
