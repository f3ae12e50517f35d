"""What every kind of message group has in common: an owner, and entries others have skipped.

A group has at most one owner. Other consumers pass its entries over, and go on to those of
other groups: an owner that is busy blocks nobody. What was passed over is remembered until
the group is free, because only then somebody else must be sent back to it.

Kinds differ in when an ownership ends. None of them concerns browsers.
"""

from abc import ABC, abstractmethod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django_mq.engine.arbiter import may_share
from django_mq.engine.states import READY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message

#: Early is what stands first in line, as in every list but a sorted one.
ORDER: Final = attrgetter("order")


def header_text(message: "Message", name: str) -> str | None:
    """The header as JSON would spell it, a string without its quotes; None unless it is a scalar.

    Null is no scalar here: it says that there is no value.
    """
    value = message.headers.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value)
    return _digits(value) if isinstance(value, int) else None


def _digits(number: int) -> str:
    try:
        return str(number)
    except (
        ValueError
    ):  # more digits than Python writes; some text must stand for it, or its queue would stop there
        return hex(number)


class Ownership:
    """One group as long as it has an owner."""

    __slots__ = ("group", "held", "owner", "skipped")

    def __init__(self, group: str, owner: "Consumer") -> None:
        self.group = group
        self.owner = owner
        #: What the owner has taken of it since it became the owner, and not given up. A set and
        #: not a number: what is given up twice, or was taken before, does not count.
        self.held: set[Entry] = set()
        #: What others were refused; some of it may be claimed or scheduled by now.
        self.skipped: set[Entry] = set()


class Groups(ABC):
    """Who owns the groups of one queue. The queue holds its lock around every call.

    Some methods set groups free. They answer the earliest ready entry that was skipped in
    them, from where on every consumer has to look again; None if nothing waits. ``position``
    tells what is early: that of the queue's list, if it does not stand in order of arrival.
    """

    __slots__ = ("_owned", "_position")

    #: Whether an owner that holds nothing of its group owns it still.
    outlasts_entries: ClassVar[bool] = True

    def __init__(self, *, position: "Callable[[Entry], Any]" = ORDER) -> None:
        self._owned: dict[Hashable, Ownership] = {}
        self._position = position

    @abstractmethod
    def group_of(self, message: "Message") -> str | None:
        """The group a message belongs to; None if to none."""

    def may_take(self, consumer: "Consumer", entry: "Entry") -> bool:
        """Whether no other consumer owns the entry's group; changes nothing."""
        owned = self._ownership(entry)
        return owned is None or may_share(owned.owner, consumer)

    def _ownership(self, entry: "Entry") -> Ownership | None:
        group = self.group_of(entry.message)
        return None if group is None else self._owned.get(self._slot(group))

    def _slot(self, group: str) -> "Hashable":
        return group

    def skipped(self, entry: "Entry") -> None:
        """A consumer was refused the entry, when it pulled or when one to wake was sought."""
        owned = self._ownership(entry)
        if owned is not None:
            owned.skipped.add(entry)

    def taken(self, consumer: "Consumer", entry: "Entry") -> bool:
        """The consumer has claimed the entry; whether it became the group's owner by that."""
        group = self.group_of(entry.message)
        if group is None:
            return False
        slot = self._slot(group)
        owned = self._owned.get(slot)
        first = owned is None
        if owned is None:
            owned = self._owned[slot] = Ownership(group, consumer)
        if owned.owner == consumer:
            owned.held.add(entry)
        return first

    def delivered(self, consumer: "Consumer", entry: "Entry") -> "Entry | None":  # noqa: ARG002
        """The entry was handed to the consumer, after ``taken``: some messages close their group."""
        return None

    def gave_up(self, consumer: "Consumer", entry: "Entry") -> "Entry | None":
        """The consumer holds the entry no longer, whatever became of it."""
        owned = self._ownership(entry)
        if owned is None:
            return None
        if entry.state is READY:  # it stands in line again, and all but the owner are refused it
            owned.skipped.add(entry)
        if owned.owner != consumer:
            return None
        owned.held.discard(entry)
        return None if self.outlasts_entries or owned.held else self.close(owned.group)

    def gone(self, entry: "Entry") -> None:
        """The entry has left the queue for good; nobody will be sent back to it."""
        owned = self._ownership(entry)
        if owned is not None:
            owned.skipped.discard(entry)

    def joined(self, consumer: "Consumer") -> "Entry | None":  # noqa: ARG002
        """A consumer has come: some queues share their groups out anew."""
        return None

    def left(self, consumer: "Consumer") -> "Entry | None":
        """The consumer is gone: it owns nothing any more. What it held may be given up before or after."""
        return self._free([slot for slot, owned in self._owned.items() if owned.owner == consumer])

    def close(self, group: str) -> "Entry | None":
        """Set one group free, whatever its owner still holds; the next consumer to take of it owns it."""
        slot = self._slot(group)
        return self._free([slot]) if slot in self._owned else None

    def reset(self) -> "Entry | None":
        """Set all groups free, whatever their owners still hold."""
        return self._free(list(self._owned))

    def _free(self, slots: "Iterable[Hashable]") -> "Entry | None":
        freed = [self._owned.pop(slot) for slot in slots]
        waiting = (entry for owned in freed for entry in owned.skipped if entry.state is READY)
        return min(waiting, key=self._position, default=None)

    def owner_of(self, group: str) -> "Consumer | None":
        """Who owns a group, by itself or with its bucket; None if nobody does."""
        owned = self._owned.get(self._slot(group))
        return None if owned is None else owned.owner

    def owners(self) -> "dict[str, Consumer]":
        """The owned groups, each with its owner."""
        return {owned.group: owned.owner for owned in self._owned.values()}
