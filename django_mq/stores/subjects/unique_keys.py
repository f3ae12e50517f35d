"""The keys of unique messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from django_mq.engine.decisions.unique import First, Standing, Step, due_at, step, step_of_second, taken
from django_mq.errors import UniqueKeyHeld
from django_mq.stores import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import NewMessage

#: How often a key is looked at that another transaction frees meanwhile.
TRIES = 3


#: The fields of a message that replacing its body, or its time, changes.
BODY = ("body", "type", "content_type", "content_encoding")
TIME = ("deliver_at", "delay_seconds")


class Holder(NamedTuple):
    """The live message that has a key."""

    #: Its row id; 0 in a transaction that is not committed, in memory.
    id: int
    standing: Standing


#: The message that took a key, how that stands, and the time now.
Found: TypeAlias = tuple[First, Holder, float]
#: What has no live message.
NO_HOLDER = Holder(0, Standing.GONE)


def first_holder(holders: Iterable[Holder]) -> Holder:
    """Return the message that has a key, of those with its id in several queues: one that waits before others."""
    live = [each for each in holders if each.standing is not Standing.GONE]
    return min(live, key=lambda each: (each.standing is not Standing.WAITING, each.id), default=NO_HOLDER)


class UniqueKeys(ABC):
    """The keys of unique messages, taken in the transaction that publishes."""

    def admitted(self, messages: Sequence[NewMessage], *, again: bool) -> list[NewMessage]:
        """Take the keys of messages, and return those messages that are to be written, in the given order.

        A message that is dropped, or replaces another one, has that one in its claim. A message whose key another
        open transaction has taken waits for the end of that transaction, ``wait_seconds`` at most. Raises
        DuplicateMessage, and UniqueKeyHeld after that time.
        """
        keyed = [(message, message.unique) for message in messages if message.unique is not None]
        if not keyed:
            return list(messages)
        # By the identity of the message given.
        written: dict[int, NewMessage] = {}
        # By digest, the message of this call that has the key.
        firsts: dict[str, NewMessage] = {}
        # In one order for all, or two publishers of the same keys could wait for each other.
        keyed.sort(key=_digest)
        new = self._taken_together(keyed) if len(keyed) > 1 else frozenset()
        if len(new) == len(keyed):
            for _, claim in keyed:
                claim.first = None
            return [_debounced(each, each.unique) if each.unique is not None else each for each in messages]
        for message, claim in keyed:
            if claim.digest in new and claim.digest not in firsts:
                claim.first = None
                written[id(message)], firsts[claim.digest] = _debounced(message, claim), message
            elif (first := firsts.get(claim.digest)) is not None:
                written[id(first)] = _met_in_call(written[id(first)], message, claim)
            elif (admitted := self._admitted(message, claim, again=again)) is not None:
                written[id(message)], firsts[claim.digest] = admitted, message
        kept = [written.get(id(each)) if each.unique is not None else each for each in messages]
        return [message for message in kept if message is not None]

    def _taken_together(self, keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> Set[str]:
        """Take the keys that have no row, each for the first of its messages; return their digests."""
        first = {claim.digest: (message, claim) for message, claim in reversed(keyed)}
        return self.insert_many([first[digest] for digest in sorted(first)])

    def _admitted(self, message: NewMessage, claim: UniqueClaim, *, again: bool) -> NewMessage | None:
        claim.first = None
        if (found := self.meet(message, claim)) is None:
            return _debounced(message, claim)
        return self._stepped(message, claim, *found, again=again)

    def _stepped(
        self, message: NewMessage, claim: UniqueClaim, first: First, holder: Holder, now: float, *, again: bool
    ) -> NewMessage | None:
        match step(claim, first, holder.standing, now, again=again):
            case Step.TAKE:
                self.give(message, claim)
                return _debounced(message, claim)
            case Step.CONTINUE:
                self.go_on(message, claim)
                return message
            case Step.PASS:
                return message
            case Step.REFUSE:
                raise taken(claim, first, holder.standing)
            case Step.REPLACE:
                due = due_at(claim.rule, first.first_at, now)
                self._replace(message, claim, holder, None if due is None else datetime.fromtimestamp(due, UTC))
        claim.first = first
        return None

    def _replace(self, message: NewMessage, claim: UniqueClaim, holder: Holder, due: datetime | None) -> None:
        replaced = claim.rule.replaces
        if "body" in replaced:
            self.replace_body(holder.id, message)
        if due is not None:
            self.reschedule(holder.id, due)
        elif "time" in replaced:
            self.reschedule(holder.id, message.deliver_at or self.ahead(message.delay_seconds or 0.0))
        if "priority" in replaced:
            self.prioritise(holder.id, message.priority)

    def meet(self, message: NewMessage, claim: UniqueClaim) -> Found | None:
        """Take a key that no message has ever taken; return None then, else what ``find`` returns."""
        for _ in range(TRIES):
            if self.insert(message, claim):
                return None
            if (found := self.find(claim)) is not None:
                return found
        raise errors.unexplained(message)

    @abstractmethod
    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        """Take a key that no message has ever taken; return whether there was none."""

    def insert_many(self, keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> Set[str]:
        """Take keys, given in the order of their digests, that no message has ever taken; return their digests."""
        return {claim.digest for message, claim in keyed if self.insert(message, claim)}

    @abstractmethod
    def find(self, claim: UniqueClaim) -> Found | None:
        """Lock a key; return the message that took it, how that stands, and the time now.

        A message that waits is locked, too, so that no worker takes it before the commit.
        """

    @abstractmethod
    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        """Give a key that was found to this message."""

    @abstractmethod
    def go_on(self, message: NewMessage, claim: UniqueClaim) -> None:
        """Note the message that continues the work of the one with the key."""

    @abstractmethod
    def take_back(self, messages: Sequence[NewMessage]) -> None:
        """Free the keys of messages that were not written."""

    @abstractmethod
    def replace_body(self, id_: int, message: NewMessage) -> None:
        """Give a waiting message the body of this one, and its type. The headers stay: queues order by them."""

    @abstractmethod
    def reschedule(self, id_: int, deliver_at: datetime) -> None: ...

    @abstractmethod
    def prioritise(self, id_: int, priority: int) -> None: ...

    @abstractmethod
    def ahead(self, seconds: float) -> datetime:
        """Return the time in so many seconds by the store's clock."""

    @abstractmethod
    def free(self, digest: str) -> bool:
        """Take a key from whichever message has it; return whether there was one."""

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete keys that no message has any longer; return how many."""


def _digest(keyed: tuple[NewMessage, UniqueClaim]) -> str:
    return keyed[1].digest


def _met_in_call(first: NewMessage, message: NewMessage, claim: UniqueClaim) -> NewMessage:
    """Return the first message of a call, changed by another one with its key. Raises DuplicateMessage."""
    owner = first.unique.owner if first.unique is not None else ""
    claim.first = First(first.message_id, owner, "finished", 0.0, None)
    found = step_of_second(claim.rule.second, Standing.WAITING)
    if found is Step.REFUSE:
        raise taken(claim, claim.first, Standing.WAITING)
    if found is Step.DROP:
        return first
    fields = {"body": BODY, "time": TIME, "priority": ("priority",)}
    names = [name for part in claim.rule.replaces for name in fields[part]]
    return replace(first, **{name: getattr(message, name) for name in names})


def _debounced(message: NewMessage, claim: UniqueClaim) -> NewMessage:
    """Return the first of messages that are debounced, with its time of delivery."""
    seconds = claim.rule.debounce_seconds
    return message if seconds is None else replace(message, deliver_at=None, delay_seconds=seconds)


def held(claim: UniqueClaim, *, several: bool = False) -> UniqueKeyHeld:
    """Return the error for a key, or one of several, that another transaction has taken and not committed."""
    if several:
        what = "A unique key of these messages"
    else:
        what = f"The unique key {claim.label!r}" if claim.label else "The unique key of these arguments"
    return UniqueKeyHeld(
        f"{what} is taken by a transaction that has not ended within {claim.rule.wait_seconds:g} seconds."
        " Try again later, or raise wait_seconds."
    )
