"""Limits that a claim asks for each message, besides the rules of its queue.

A message that one of them refuses is parked: it is not asked again before its key is freed, or its time has come.
Or it is dropped, if the limit says so. All limits are asked before one of them takes. A claim that has refused
many messages ends: it holds the claim lock, for which other claims wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from django_mq.engine.decisions.keyed_limits import LimitedKey, LimitFacts, Usage
    from django_mq.engine.message import Message

#: The most messages that one claim refuses.
MOST_REFUSED: Final = 1000
#: The largest body that a limit reads, in bytes.
MOST_BODY_BYTES: Final = 65_536


class Refusal(NamedTuple):
    """The key that lets a message go on when it is freed, and after how many seconds it may at the latest.

    ``seconds`` is None for no time: then only the key frees it. A message that is dropped waits for nothing.
    """

    key: str
    seconds: float | None = None
    drops: bool = False


class Freed(NamedTuple):
    """How many of the messages that are parked for a key a claim makes ready before it reads any."""

    key: str
    most: int


class Fill(NamedTuple):
    """How much a key has used of a limit, for people: messages that run, or the weight of what has begun."""

    limit: str
    key: str
    used: float
    #: None if the code of this process does not declare the limit.
    of: float | None
    #: Whether it limits how many run at once, and not how many begin in a time.
    runs: bool = False

    @property
    def is_full(self) -> bool:
        """Whether no further message of the key may begin, if it weighs 1."""
        return self.of is not None and self.used + 1 > self.of

    @property
    def share(self) -> float:
        """The used share, at most 1; 0 if that is not known."""
        return min(1.0, self.used / self.of) if self.of else 0.0


class OpenLimit:
    """A limit with what has been used of it, for one claim of one queue. A limit overrides what it needs."""

    #: Whether it reads more of messages than their groups, which takes a statement more.
    reads_messages: bool = True
    #: Whether it reads the bodies of messages, too, which takes another one. Larger bodies are empty for it.
    reads_bodies: bool = False
    #: In how many seconds a claim may bring something that the limit has parked before; None if that is not known.
    next_seconds: float | None = None

    def lacking(self, messages: Iterable[Message]) -> Collection[LimitedKey]:  # noqa: ARG002 - of those that override it
        """Return the keys that it must know for what waits and for these messages, and does not know yet."""
        return ()

    def learn(self, keys: Collection[LimitedKey], facts: LimitFacts) -> None:
        """Take note of what is known of these keys."""

    def frees(self, most: int) -> Sequence[Freed]:  # noqa: ARG002 - of those that override it
        """Return what may go on now, for a claim that brings ``most`` messages."""
        return ()

    def freed(self, freed: Freed, count: int) -> None:
        """Take note of how many were parked for the key, and are ready now."""

    def refuses(self, message: Message) -> Refusal | None:
        """Return what a message over the limit waits for; None if it may begin."""
        raise NotImplementedError

    def may_wait(self, message: Message) -> bool:  # noqa: ARG002 - as above
        """Whether a message that may begin may wait for that in a worker's memory, for a very short time."""
        return False

    def fills(self) -> Sequence[Fill]:
        """Return how much the known keys have used."""
        return ()

    def takes(self, message: Message) -> None:
        """Use the limit for a message that the claim brings."""

    def writes(self, taken: Sequence[tuple[tuple[int, int], Message]]) -> Usage | None:
        """Return what the claim writes of limits by key, by row id and claim token of what is leased.

        They may be fewer than were taken. A limit that keeps something else may write it here.
        """


C = TypeVar("C")


class OpenLimits(Generic[C]):
    """The limits of one claim of one queue, and what they have refused."""

    def __init__(
        self, opened: Sequence[OpenLimit], message_of: Callable[[C], Message], *, slots: int, ahead: int = 0
    ) -> None:
        """Ask these, for a claim that brings as many as there are ``slots``, and ``ahead`` more that may wait."""
        self.opened = opened
        self.message_of = message_of
        self._slots, self._ahead = max(0, slots), ahead
        self._allowed = 0
        #: Whether the last message that was not allowed stays ready, as it must not wait in memory.
        self.stays_ready = False
        self.parked: list[tuple[C, Refusal]] = []
        self.dropped: list[C] = []

    @property
    def reads_messages(self) -> bool:
        return any(each.reads_messages for each in self.opened)

    @property
    def reads_bodies(self) -> bool:
        return any(each.reads_bodies for each in self.opened)

    @property
    def refused(self) -> int:
        """How many messages were refused."""
        return len(self.parked) + len(self.dropped)

    @property
    def most(self) -> int:
        """How many messages the claim may bring."""
        return self._slots + self._ahead

    @property
    def is_full(self) -> bool:
        """Whether the claim refuses no further message, but ends."""
        return self.refused >= MOST_REFUSED

    @property
    def next_seconds(self) -> float | None:
        """In how many seconds a claim may bring something of what was refused; None if no time is set."""
        times = [each.seconds for _, each in self.parked]
        times += [each.next_seconds for each in self.opened]
        return min((seconds for seconds in times if seconds is not None), default=None)

    def lacking(self, items: Sequence[C] = ()) -> list[LimitedKey]:
        """Return the keys to read first, for what waits and for these messages."""
        found = (each.lacking(map(self.message_of, items)) for each in self.opened)
        return sorted({key for keys in found for key in keys})

    def learn(self, keys: Collection[LimitedKey], facts: LimitFacts) -> None:
        """Take note of what is known of these keys."""
        for limit in self.opened:
            limit.learn(keys, facts)

    def frees(self, most: int) -> Iterator[tuple[OpenLimit, Freed]]:
        """Yield what each limit lets go on, for a claim that brings ``most`` messages."""
        for limit in self.opened:
            for freed in limit.frees(most):
                yield limit, freed

    def allow(self, item: C) -> bool:
        """Use all limits for the message; use none if one of them refuses it, and note that."""
        message = self.message_of(item)
        # What is over its limit here is not parked: the claim has all that begins at once.
        self.stays_ready = self._allowed >= self._slots and not all(
            limit.may_wait(message) for limit in self.opened
        )
        if self.stays_ready:
            return False
        for limit in self.opened:
            if (refusal := limit.refuses(message)) is None:
                continue
            if refusal.drops:
                self.dropped.append(item)
            else:
                self.parked.append((item, refusal))
            return False
        self._allowed += 1
        for limit in self.opened:
            limit.takes(message)
        return True

    def writes(self, taken: Sequence[tuple[tuple[int, int], C]]) -> list[Usage]:
        """Return what the claim writes of each limit."""
        leased = [(receipt, self.message_of(item)) for receipt, item in taken]
        return [used for limit in self.opened if (used := limit.writes(leased)) is not None]
