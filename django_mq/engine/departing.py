"""How entries leave a queue, whatever their state, and who must hear of it."""

from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from django_mq.engine.calendar import Calendar
from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED
from django_mq.engine.dispatch import Dispatch
from django_mq.engine.holding import Holding
from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.engine.policy import IN_PROCESS, QueuePolicy
from django_mq.engine.states import CLAIMED, DEAD, HELD, READY, SCHEDULED, STEALABLE, State
from django_mq.engine.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists.base import EntryList

#: Before any time.
NEVER_YET: Final = float("-inf")


class Cause(Enum):
    """Why an entry is gone; each has a counter of that name, or counts as killed."""

    ACCEPTED = "accepted"
    EXPIRED = "expired"
    KILLED = "killed"
    #: Killed by an operator, message by message or all of them.
    CANCELLED = "cancelled"
    PURGED = "purged"
    REPLACED = BY_LATER_VALUE
    #: Moved to another queue, or replaced by a copy: only its departure counts.
    MOVED = "moved"


_KILLED: Final = frozenset({Cause.KILLED, Cause.CANCELLED, Cause.PURGED})


class Listener(Protocol):
    """A store that keeps something for each entry. It is called under the lock, and must not call the queue."""

    def arrived(self, queue: str, entry: "Entry") -> None:
        """An entry is new in this queue."""

    def departed(self, queue: str, entry: "Entry", cause: Cause) -> None:
        """The entry has left this queue for good; it may stand in another one by now."""

    def deleted(self, queue: str) -> None:
        """The queue is no more."""


class Departing:
    """Where the entries are, and how they are taken out.

    ``gone`` is called after an entry has left for good, ``expired`` with one whose time has
    passed, already taken out.
    """

    __slots__ = (
        "_arrived",
        "_expired",
        "_gone",
        "calendar",
        "claimed",
        "dead",
        "departed",
        "dispatch",
        "expired_until",
        "holding",
        "ids",
        "policy",
        "statistics",
    )

    def __init__(
        self,
        ready: "EntryList",
        gone: "Callable[[Entry, Cause], None]",
        expired: "Callable[[Entry], None]",
        arrived: "Callable[[Entry], None] | None" = None,
        policy: QueuePolicy = IN_PROCESS,
    ) -> None:
        self.policy = policy
        self.dispatch = Dispatch(ready, self.expire_entry, delivers_expired=policy.delivers_expired)
        self.calendar = Calendar()
        self.holding = Holding(ready)
        self.claimed = 0
        self.dead: dict[Entry, None] = {}
        #: Consumers that were closed and have not settled everything yet.
        self.departed: dict[Consumer, None] = {}
        #: When ``expire`` was called last.
        self.expired_until = NEVER_YET
        self.statistics = Statistics()
        #: The entries by the ids of their messages, if those stand here once.
        self.ids: dict[str, Entry] | None = {} if policy.ids_once else None
        self._gone = gone
        self._expired = expired
        self._arrived = arrived

    def depart(self, entry: "Entry", cause: Cause) -> None:
        """Count an entry that is gone, and tell who must know."""
        statistics = self.statistics
        statistics.left(entry.message.size)
        if cause is Cause.ACCEPTED:
            statistics.accepted += 1
        elif cause in _KILLED:
            statistics.killed += 1
        elif cause is not Cause.MOVED:
            setattr(statistics, cause.value, getattr(statistics, cause.value) + 1)
        if self.ids is not None:
            del self.ids[entry.message.id]
        self._gone(entry, cause)

    def credited(self, consumer: "Consumer") -> None:
        """The consumer has its credit again: whom does it concern?"""
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

    def _freed(self, consumer: "Consumer", entry: "Entry") -> None:
        # After the entry's state has moved: a group may be free, and the entry wait in it.
        if self.dispatch.groups is not None:
            self.dispatch.look_again(self.dispatch.groups.gave_up(consumer, entry))

    # Taking out.

    def take_out(self, entry: "Entry", cause: Cause) -> bool:
        """Remove an entry in whatever state; its holder has its credit again. False if it is not here."""
        if entry.is_claimed:
            return self._take_from_holder(entry, cause)
        if not self._take_from_place(entry):
            return False
        entry.discard()
        self.depart(entry, cause)
        return True

    def _take_from_place(self, entry: "Entry") -> bool:
        if entry.state is READY:
            here = self.dispatch.leave(entry)
            self.calendar.expiring.remove(entry)
            return here
        if entry.state is SCHEDULED:
            self.calendar.expiring.remove(entry)
            return self.calendar.schedule.remove(entry)
        if entry.state is HELD:
            self.calendar.expiring.remove(entry)
            return self.holding.remove(entry)
        return self.dead.pop(entry, self) is None

    def _take_from_holder(self, entry: "Entry", cause: Cause) -> bool:
        holder = entry.owner
        if holder is None or not self._knows(holder) or not holder.settle(entry):
            return False
        if entry in holder.reserved:  # or it would be handed over, gone as it is
            holder.reserved.remove(entry)
        self.calendar.expiring.remove(entry)  # a stealable one is still there
        entry.lock(holder)
        entry.accept(holder)
        self.claimed -= 1
        self.depart(entry, cause)
        self.credited(holder)
        self._freed(holder, entry)
        return True

    def _knows(self, holder: "Consumer") -> bool:
        return holder in self.dispatch.consumers.all or holder in self.departed

    def take_free(self, entry: "Entry", cause: Cause) -> bool:
        """Remove an entry unless somebody holds it fast; then it goes when it is given back."""
        if entry.state is not CLAIMED:
            return self.take_out(entry, cause)
        if entry.owner is not None and self._knows(entry.owner):
            entry.doomed = True
        return False

    def steal(self, entry: "Entry", cause: Cause) -> bool:
        """Take a stealable entry away. Its holder's settlement will be void, and return the credit."""
        holder = entry.owner
        if holder is None or entry.state is not STEALABLE or not self._knows(holder):
            return False
        if entry in holder.reserved:  # it was never handed over, so nobody would settle it
            return self._take_from_holder(entry, cause)
        self.calendar.expiring.remove(entry)
        entry.discard()
        self.claimed -= 1
        self.depart(entry, cause)
        self._freed(holder, entry)
        return True

    def take_back(self, entry: "Entry", cause: Cause) -> bool:
        """Steal an entry if its holder has agreed to that, else remove it in whatever state; False if not here."""
        return self.steal(entry, cause) or self.take_out(entry, cause)

    def take_all(self, states: "Container[State]", cause: Cause = Cause.KILLED) -> "list[Entry]":
        """Remove every entry in one of these states, in order; what a consumer holds fast stays."""
        taken = [entry for entry in chain(self.stealable(), self.waiting()) if entry.state in states]
        return [entry for entry in taken if self.take_back(entry, cause)]

    def expire_entry(self, entry: "Entry") -> None:
        """Remove an entry that has expired."""
        self._expired(entry)
        if not self.steal(entry, Cause.EXPIRED):
            self._take_from_place(entry)
            entry.discard()
            self.depart(entry, Cause.EXPIRED)

    # Looking.

    def waiting(self) -> "Iterator[Entry]":
        """Every entry that nobody holds: the ready ones first, in order."""
        return chain(self.dispatch.ready, self.holding, self.calendar.schedule, self.dead)

    def held(self) -> "list[Entry]":
        """Every entry that somebody has claimed, a consumer that has left included."""
        holders = chain(self.dispatch.consumers.all, self.departed)
        return [each for holder in holders for each in holder.unsettled if each.owner is holder]

    def stealable(self) -> "list[Entry]":
        """Every claimed entry that may be taken back."""
        if not any(consumer.stealable for consumer in chain(self.dispatch.consumers.all, self.departed)):
            return []
        return [entry for entry in self.held() if entry.state is STEALABLE]

    def counts(self) -> dict[State, int]:
        """How many entries are in each state; a held one counts as ready (Qpid)."""
        return {
            SCHEDULED: len(self.calendar.schedule),
            READY: len(self.dispatch.ready) + len(self.holding),
            CLAIMED: self.claimed,
            DEAD: len(self.dead),
        }
