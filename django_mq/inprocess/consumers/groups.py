"""Message groups: which consumer owns which group, and until when.

A group has at most one owner. Other consumers skip its entries and go on to those of
other groups, so a busy owner blocks no other consumer. Skipped entries are remembered until
the group is free: then the other consumers must look at them again.

The subclasses differ in when an ownership ends. None of them concerns browsers.
"""

from abc import ABC, abstractmethod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final
from zlib import crc32

from django_mq.engine.decisions.arbiter import may_share
from django_mq.engine.message import header_text
from django_mq.engine.states import READY
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from django_mq.engine.message import Message
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry


#: The sort key of every list but a sorted one.
ORDER: Final = attrgetter("order")


class Ownership:
    """One group and its owner."""

    def __init__(self, group: str, owner: "Consumer") -> None:
        self.group = group
        self.owner = owner
        #: The entries that the owner has taken since it became the owner, and still holds. A set, not
        #: a number: an entry that is given up twice, or was taken before, does not count.
        self.held: set[Entry] = set()
        #: Entries that other consumers had to skip; some may be claimed or scheduled by now.
        self.skipped: set[Entry] = set()


class Groups(ABC):
    """The groups of one queue and their owners. The queue holds its lock around every call.

    Methods that free groups return the earliest ready entry that was skipped in
    them, or None: from there every consumer has to look again. ``position`` is the sort key of the
    queue's list, if that is not the order of arrival.
    """

    #: Whether an owner that holds no entry of its group still owns it.
    outlasts_entries: ClassVar[bool] = True

    def __init__(self, *, position: "Callable[[Entry], Any]" = ORDER) -> None:
        self._owned: dict[Hashable, Ownership] = {}
        self._position = position

    @abstractmethod
    def group_of(self, message: "Message") -> str | None:
        """Return the group of a message; None if it has none."""

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
        """Note that a consumer may not take the entry, because of its group."""
        owned = self._ownership(entry)
        if owned is not None:
            owned.skipped.add(entry)

    def taken(self, consumer: "Consumer", entry: "Entry") -> bool:
        """Note that the consumer has claimed the entry; return whether that made it the owner of the group."""
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
        """Note that the consumer has received the entry, after ``taken``: some messages close their group."""
        return None

    def gave_up(self, consumer: "Consumer", entry: "Entry") -> "Entry | None":
        """Note that the consumer holds the entry no longer, for any reason."""
        owned = self._ownership(entry)
        if owned is None:
            return None
        if entry.state is READY:  # it stands in line again, and all but the owner skip it
            owned.skipped.add(entry)
        if owned.owner != consumer:
            return None
        owned.held.discard(entry)
        return None if self.outlasts_entries or owned.held else self.close(owned.group)

    def gone(self, entry: "Entry") -> None:
        """Note that the entry has left the queue for good."""
        owned = self._ownership(entry)
        if owned is not None:
            owned.skipped.discard(entry)

    def joined(self, consumer: "Consumer") -> "Entry | None":  # noqa: ARG002
        """Note that a consumer has subscribed: some queues assign their groups anew."""
        return None

    def left(self, consumer: "Consumer") -> "Entry | None":
        """Note that the consumer has left and owns no group. It may give up its entries before or after."""
        return self._free([slot for slot, owned in self._owned.items() if owned.owner == consumer])

    def close(self, group: str) -> "Entry | None":
        """Free one group, even if its owner holds entries of it; the next consumer to take one owns it."""
        slot = self._slot(group)
        return self._free([slot]) if slot in self._owned else None

    def assign(self, group: str, consumer: "Consumer") -> "Entry | None":
        """Give a group to another owner; the owner before may still hold entries of it."""
        first = self.close(group)
        self._owned[self._slot(group)] = Ownership(group, consumer)
        return first

    def reset(self) -> "Entry | None":
        """Free all groups, even if their owners hold entries of them."""
        return self._free(list(self._owned))

    def _free(self, slots: "Iterable[Hashable]") -> "Entry | None":
        freed = [self._owned.pop(slot) for slot in slots]
        waiting = (entry for owned in freed for entry in owned.skipped if entry.state is READY)
        return min(waiting, key=self._position, default=None)

    def owner_of(self, group: str) -> "Consumer | None":
        """Return the owner of a group, by itself or with its bucket; None if there is none."""
        owned = self._owned.get(self._slot(group))
        return None if owned is None else owned.owner

    def owners(self) -> "dict[str, Consumer]":
        """Return the owned groups, each with its owner."""
        return {owned.group: owned.owner for owned in self._owned.values()}


#: The sequence number of the last message of a group; other numbers have no meaning.
LAST_OF_GROUP: Final = -1


class AssignedGroups(Groups):
    """The first consumer to take a message of a group owns the group until it leaves.

    The group stays its own while the queue has no message of it. ``key`` is the header that names the group,
    and a message without it is of no group; without a ``key``, the message's own ``group`` counts.

    Without ``buckets``, every group ever seen is remembered until its owner leaves. With it,
    groups are hashed into that many buckets, and the groups of a bucket share an owner;
    ``owners`` then names for each bucket only the group that was taken first. Raises OutOfRange unless
    there is at least one bucket.

    A message with -1 in its header ``sequence_key`` still goes to the owner, and then frees its
    group (with all of its bucket). With ``rebalance`` every new consumer frees all groups.
    In both cases the old owner may still hold messages of a group that has a new owner.
    """

    def __init__(
        self,
        key: str | None = None,
        buckets: int | None = None,
        rebalance: bool = False,
        *,
        sequence_key: str | None = None,
        position: "Callable[[Entry], Any]" = ORDER,
    ) -> None:
        super().__init__(position=position)
        if buckets is not None and buckets < 1:
            raise OutOfRange(f"Groups need at least one bucket, not {buckets}; None gives each its own.")
        self._key, self._buckets, self._rebalance, self._sequence_key = key, buckets, rebalance, sequence_key

    def group_of(self, message: "Message") -> str | None:
        return message.group if self._key is None else header_text(message, self._key)

    def _slot(self, group: str) -> "Hashable":
        if self._buckets is None:
            return group
        # Not ``hash``, which differs from process to process; a lone surrogate is a legal header.
        return crc32(group.encode("utf-8", "surrogatepass")) % self._buckets

    def delivered(self, consumer: "Consumer", entry: "Entry") -> "Entry | None":
        if self._sequence_key is None or entry.message.headers.get(self._sequence_key) != LAST_OF_GROUP:
            return None
        group = self.group_of(entry.message)
        return None if group is None or not self.may_take(consumer, entry) else self.close(group)

    def joined(self, consumer: "Consumer") -> "Entry | None":  # noqa: ARG002
        return self.reset() if self._rebalance else None


#: The group of messages that name none.
DEFAULT_GROUP: Final = "no-group"


class SharedGroups(Groups):
    """A consumer owns a group while it holds at least one of its entries.

    So two consumers never handle messages of a group at once, but one after the
    other may serve it. Messages without the header ``key`` are all of ``default_group``, which
    is a group like any other.

    No consumer holds an entry that failed and waits for its next attempt: the rest of its group
    goes on without it.
    """

    outlasts_entries = False

    def __init__(
        self, key: str, default_group: str = DEFAULT_GROUP, *, position: "Callable[[Entry], Any]" = ORDER
    ) -> None:
        super().__init__(position=position)
        self._key, self._default_group = key, default_group

    def group_of(self, message: "Message") -> str:
        group = header_text(message, self._key)
        return self._default_group if group is None else group


class SoleReceiver(Groups):
    """The first consumer to take a message receives all of them until it leaves.

    The others wait; even a consumer of a higher priority does not take over.
    """

    def group_of(self, message: "Message") -> str:  # noqa: ARG002
        return "everything"
