"""Limits that a claim asks for each message, besides the rules of its queue.

A message that one of them refuses is parked: it is not asked again before its key is freed, or its time has come.
All limits are asked before one of them takes. A claim that has parked many messages ends: it holds the claim lock,
for which other claims wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.engine.message import Message

#: The most messages that one claim parks.
MOST_REFUSED: Final = 1000


class Refusal(NamedTuple):
    """The key that lets a message go on when it is freed, and after how many seconds it may at the latest.

    ``seconds`` is None for no time: then only the key frees it.
    """

    key: str
    seconds: float | None = None


class OpenLimit(Protocol):
    """A limit with what has been used of it, for one claim of one queue."""

    def refuses(self, message: Message) -> Refusal | None:
        """Return what a message over the limit waits for; None if it may begin."""

    def takes(self, message: Message) -> None:
        """Use the limit for a message that the claim brings."""

    def writes(self, taken: Sequence[tuple[int, Message]]) -> None:
        """Write what has been used, by the row ids of the messages that are leased, in the claim's transaction.

        They may be fewer than were taken.
        """


C = TypeVar("C")


class OpenLimits(Generic[C]):
    """The limits of one claim of one queue, and what they have refused."""

    def __init__(self, opened: Sequence[OpenLimit], message_of: Callable[[C], Message]) -> None:
        self.opened = opened
        self.message_of = message_of
        self.refused: list[tuple[C, Refusal]] = []

    @property
    def is_full(self) -> bool:
        """Whether the claim refuses no further message, but ends."""
        return len(self.refused) >= MOST_REFUSED

    @property
    def next_seconds(self) -> float | None:
        """In how many seconds a claim may bring something of what was refused; None if no time is set."""
        return min((each.seconds for _, each in self.refused if each.seconds is not None), default=None)

    def allow(self, item: C) -> bool:
        """Use all limits for the message; use none, and note the refusal, if one of them refuses it."""
        message = self.message_of(item)
        for limit in self.opened:
            if (refusal := limit.refuses(message)) is not None:
                self.refused.append((item, refusal))
                return False
        for limit in self.opened:
            limit.takes(message)
        return True

    def write(self, taken: Sequence[tuple[int, C]]) -> None:
        """Let every limit write what it has used."""
        if taken:
            leased = [(id_, self.message_of(item)) for id_, item in taken]
            for limit in self.opened:
                limit.writes(leased)
