"""The entries of a queue by state, and the counters of the queue."""

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from django_mq.engine.decisions.dead_letters import MAXLEN
from django_mq.engine.decisions.expiry import is_expired
from django_mq.engine.states import CLAIMED, DEAD, GONE, HELD, PARKED, READY, SCHEDULED, STEALABLE, Cause, State
from django_mq.inprocess.consumers.consumer import BLOCKED, NOT_INTERESTED, holder_of
from django_mq.inprocess.consumers.dispatch import Dispatch
from django_mq.inprocess.entries.fairness import FairOrder
from django_mq.inprocess.entries.parked import ParkedEntries
from django_mq.inprocess.entries.timeline import UNTOLD, Holding, Timeline, due_order, expiry_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.lists import EntryList
    from django_mq.inprocess.rules import QueuePolicy


_KILLED: Final = frozenset({Cause.KILLED, Cause.CANCELLED, Cause.PURGED, Cause.DEAD, Cause.LIMITED})


class EntryListener(Protocol):
    """A store that keeps data for each entry. The queue calls it under its lock; it must not call the queue."""

    def arrived(self, queue: str, entry: "Entry") -> None:
        """Called when an entry is new in this queue."""

    def departed(self, queue: str, entry: "Entry", cause: Cause) -> None:
        """Called when the entry has left this queue for good; it may be in another queue by now."""

    def dropped_by(self, queue: str, entry: "Entry") -> None:
        """Called when the queue has made a dead letter of a ready entry, to make room."""

    def deleted(self, queue: str) -> None:
        """Called when the queue has been deleted."""


@dataclass(slots=True)
class Statistics:
    """The counters of one queue. ``dequeued`` counts removals for any reason.

    Only the bytes of bodies are counted.
    """

    enqueued: int = 0
    enqueued_bytes: int = 0
    dequeued: int = 0
    dequeued_bytes: int = 0
    #: Removed because a consumer accepted them.
    accepted: int = 0
    #: Removed because their time had passed.
    expired: int = 0
    #: Removed as dead letters, by a purge or by an operator.
    killed: int = 0
    #: Replaced by newer messages, in a ring or in a last-value queue.
    replaced: int = 0
    most_depth: int = 0
    most_depth_bytes: int = 0
    most_ready: int = 0

    @property
    def depth(self) -> int:
        """How many messages the queue holds, in any state."""
        return self.enqueued - self.dequeued

    @property
    def depth_bytes(self) -> int:
        """How many bytes of bodies the queue holds."""
        return self.enqueued_bytes - self.dequeued_bytes

    def reset(self, ready: int) -> None:
        """Count from zero. The messages that are in the queue now become the first maxima."""
        depth, size_bytes = self.depth, self.depth_bytes
        self.__init__()  # type: ignore[misc]
        # The depth is ``enqueued - dequeued``: with ``enqueued`` 0 it needs a negative ``dequeued``.
        self.dequeued, self.dequeued_bytes = -depth, -size_bytes
        self.most_depth, self.most_depth_bytes, self.most_ready = depth, size_bytes, ready


class Contents:
    """The entries of one queue, in a structure for each state: ready, held, scheduled, parked and dead.

    The consumer of a claimed entry keeps the entry; it is only counted here. ``expired`` is called with each
    expired entry before it is removed.
    """

    def __init__(
        self,
        name: str,
        ready: "EntryList",
        policy: "QueuePolicy",
        listener: EntryListener | None,
        expired: "Callable[[Entry], None]",
    ) -> None:
        self._name, self._listener, self._expired = name, listener, expired
        self.policy = policy
        self.dispatch = Dispatch(ready, self.expire_entry, delivers_expired=policy.delivers_expired)
        self.schedule = Timeline(due_order)
        #: Entries that may expire now. A scheduled entry is here only if the policy says so. A claimed entry
        #: expires when it is given back, because work that has begun cannot be undone.
        self.expiring = Timeline(expiry_order)
        self.holding = Holding(ready)
        #: What gives ready entries their places in a queue that keys share.
        self.fair = FairOrder(ready)
        self.parked = ParkedEntries()
        self.claimed = 0
        self.dead: dict[Entry, None] = {}
        #: Consumers that have left and still hold entries.
        self.departed: dict[Consumer, None] = {}
        #: The time of the last call of ``expire``.
        self.expired_until = UNTOLD
        self.statistics = Statistics()
        #: The entries by message id, in a queue where an id is unique.
        self.ids: dict[str, Entry] | None = {} if policy.ids_once else None
        #: Called when an entry has left, while producers wait for room.
        self.freed: Callable[[], None] | None = None

    # Arriving, and standing in line.

    def arrive(self, entry: "Entry") -> None:
        """Add an entry that is new in the queue."""
        if self.ids is not None:
            self.ids[entry.message.id] = entry
        if self._listener is not None:
            self._listener.arrived(self._name, entry)
        statistics, size = self.statistics, entry.message.size
        statistics.enqueued = enqueued = statistics.enqueued + 1
        statistics.enqueued_bytes = enqueued_bytes = statistics.enqueued_bytes + size
        # Compared without max: three calls would cost more than all of this.
        depth, depth_bytes = enqueued - statistics.dequeued, enqueued_bytes - statistics.dequeued_bytes
        if depth > statistics.most_depth:  # noqa: PLR1730
            statistics.most_depth = depth
        if depth_bytes > statistics.most_depth_bytes:  # noqa: PLR1730
            statistics.most_depth_bytes = depth_bytes
        consumers = self.dispatch.consumers
        noticed = consumers.idle or consumers.views or consumers.blocked
        if entry.state is READY and entry.expires_at is None and not noticed and self.fair.fairness is None:
            replaced = self.dispatch.ready.add(entry)  # the same as ``place``, with fewer calls
            if replaced is not None or depth - self.claimed > statistics.most_ready:
                self._stands(replaced)
        else:
            self.place(entry)

    def place(self, entry: "Entry") -> None:
        """Add an entry that is not claimed to the structure of its state; a ready entry wakes a consumer."""
        if entry.state is DEAD:
            self.dead[entry] = None
            self.dispatch.ready.forget(entry)  # a dead value does not replace other values
            return
        if entry.expires_at is not None and (entry.state is not SCHEDULED or self.policy.expires_scheduled):
            self.expiring.add(entry)
        if entry.state is READY:
            self.fair.place(entry)
            self._stands(self.dispatch.stand(entry))
        elif entry.state is SCHEDULED:
            self.schedule.add(entry)
        elif entry.state is PARKED:
            self.parked.add(entry)
        else:
            self.holding.add(entry)

    def _stands(self, replaced: "Entry | None") -> None:
        if replaced is not None:
            self._replace(replaced)
        statistics = self.statistics
        if statistics.enqueued - statistics.dequeued - self.claimed > statistics.most_ready:
            statistics.most_ready = max(statistics.most_ready, len(self.dispatch.ready))

    def _replace(self, entry: "Entry") -> None:
        for_good = self.policy.replaces_for_good
        if entry.is_claimed:
            entry.replaced = for_good
        elif entry.state is READY or (for_good and entry.state in {SCHEDULED, PARKED}):
            self.expiring.remove(entry)
            self.schedule.remove(entry)  # the entry may wait there for its next attempt
            self.parked.remove(entry)
            entry.discard()
            self.depart(entry, Cause.REPLACED)

    def lift(self, entry: "Entry") -> bool:
        """Take an entry that no consumer holds out of its structure, and set its state to ready.

        Return False if the entry is not in this queue.
        """
        if not self._take_from_place(entry):
            return False
        if entry.state is DEAD:
            entry.cause, entry.died_at = "", None
            self._forget_theft(entry)
        entry.state, entry.due_at, entry.park_key, entry.parked_until = READY, None, "", None
        return True

    def _forget_theft(self, entry: "Entry") -> None:
        """Give credit back for a dead entry that was taken back: its consumer may be offered it again."""
        for holder in [
            each for each in chain(self.dispatch.consumers.all, self.departed) if entry in each.unsettled
        ]:
            holder.settle(entry)
            self.credited(holder)

    def bury(self, entry: "Entry", cause: str) -> bool:
        """Make a ready, scheduled, parked or stealable entry dead. Return False if it is not one of these here.

        The consumer of a stealable entry gets the credit back when it settles the entry; that settlement is void.
        """
        holder = holder_of(entry)
        if entry.state is STEALABLE:
            stolen = self._take_from_holder(entry, steals=True)
            if stolen is None:
                return False
            entry.steal()
        elif entry.state not in {READY, SCHEDULED, PARKED} or not self.lift(entry):
            return False
        else:
            stolen, entry.state = True, DEAD
        entry.suspect, entry.cause = False, cause
        self.place(entry)
        if holder is not None:
            self._let_go(holder, entry, stolen=stolen)
        return True

    def drop(self, entry: "Entry") -> bool:
        """Make a dead letter of an entry to make room. Return False if it is not ready or stealable here."""
        if not self.bury(entry, MAXLEN):
            return False
        if self._listener is not None:
            self._listener.dropped_by(self._name, entry)
        return True

    def stand_again(self, entries: "list[Entry]") -> "list[Entry]":
        """Make entries that no consumer holds ready, in their places. Return those that were in this queue."""
        here = []
        for entry in entries:
            if self.lift(entry):  # the entry before may have replaced this one
                self.place(entry)
                here.append(entry)
        return here

    @contextmanager
    def placing_together(self) -> "Iterator[None]":
        """Give entries that become ready their fair places at the end, when none of them has its old place."""
        self.fair.waits = True
        try:
            yield
        finally:
            self.fair.waits = False
            self.place_unplaced()

    def place_unplaced(self) -> None:
        """Give ready entries without a fair place their places, in a queue that keys share."""
        if self.fair.fairness is not None:
            lifted = [entry for entry in self.fair.unplaced() if self.lift(entry)]
            self.fair.place(*lifted)
            for entry in lifted:
                self.place(entry)

    def park(self, entry: "Entry", key: str, until: float | None) -> bool:
        """Park a ready entry; None is no time. Return False if it is not ready here."""
        if entry.state is not READY or not self._take_from_place(entry):
            return False
        entry.state, entry.park_key, entry.parked_until = PARKED, key, until
        self.place(entry)
        return True

    def _take_from_place(self, entry: "Entry") -> bool:
        self.expiring.remove(entry)
        if entry.state is READY:
            return self.dispatch.leave(entry)
        if entry.state is SCHEDULED:
            return self.schedule.remove(entry)
        if entry.state is PARKED:
            return self.parked.remove(entry)
        return self.holding.remove(entry) if entry.state is HELD else self.dead.pop(entry, self) is None

    # Being claimed, and given back.

    def claimed_by(self, consumer: "Consumer", entry: "Entry") -> None:
        self.claimed += 1
        if consumer.stealable:
            entry.lend()  # it stays in ``expiring``
        elif entry.expires_at is not None:
            self.expiring.remove(entry)

    def accepted(self, entry: "Entry", consumer: "Consumer") -> None:
        """Accept an entry of a plain consumer, in a queue where no other consumer is affected."""
        del consumer.unsettled[entry]
        size = entry.message.size
        consumer.credit.give_back(size)
        entry.state, entry.owner = GONE, None
        self.claimed -= 1
        statistics = self.statistics
        statistics.dequeued += 1
        statistics.dequeued_bytes += size
        statistics.accepted += 1
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)

    def settled(self, entry: "Entry", consumer: "Consumer", cause: Cause = Cause.ACCEPTED) -> None:
        """Add an entry that was claimed to the structure of its new state, or count its removal.

        ``cause`` says why the entry is gone, if it is. The consumer has credit again.
        """
        self.claimed -= 1
        if consumer.stealable:
            self.expiring.remove(entry)
        if (entry.doomed or entry.replaced) and entry.state is not DEAD and entry.state is not GONE:
            cause = Cause.KILLED if entry.doomed else Cause.REPLACED
            entry.discard()
        elif not self.policy.delivers_expired and entry.state is READY and is_expired(entry, self.expired_until):
            self._expired(entry)  # it expired while a consumer held it
            cause = Cause.EXPIRED
            entry.discard()
        if entry.state is GONE:
            self.depart(entry, cause)
        else:
            self.place(entry)
        self.credited(consumer)
        self._freed(consumer, entry)

    def credited(self, consumer: "Consumer") -> None:
        """Wake the consumer if it can take entries again, and update the other consumers of its target."""
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

    def _freed(self, consumer: "Consumer", entry: "Entry") -> None:
        # Called after the state has changed: the group may be free now, and this entry ready again.
        if self.dispatch.groups is not None:
            self.dispatch.look_again(self.dispatch.groups.gave_up(consumer, entry))

    # Leaving.

    def take_out(self, entry: "Entry", cause: Cause, *, steals: bool = False, spares: bool = False) -> bool:
        """Remove an entry in any state. Return False if it is not in this queue, or is only marked for removal.

        The consumer that holds the entry gets its credit back at once. With ``steals``, the consumer of a
        stealable entry gets the credit back when it settles the entry; that settlement is void. With ``spares``,
        another claimed entry is only marked, and removed when its consumer gives it back.
        """
        holder, stolen = holder_of(entry), True
        if entry.is_claimed:
            if not self._is_known(holder):
                return False
            if spares and not (steals and entry.state is STEALABLE):
                entry.doomed = True
                return False
            taken = self._take_from_holder(entry, steals=steals)
            if taken is None:
                return False
            stolen = taken
        elif not self._take_from_place(entry):
            return False
        entry.discard()
        self.depart(entry, cause)
        if holder is not None:
            self._let_go(holder, entry, stolen=stolen)
        return True

    def _is_known(self, holder: "Consumer | None") -> bool:
        return holder is not None and (holder in self.dispatch.consumers.all or holder in self.departed)

    def _take_from_holder(self, entry: "Entry", *, steals: bool) -> bool | None:
        """Take a claimed entry from its consumer; return whether it is stolen, or None if it was not held here.

        It is stolen if the consumer gets its credit back later, when it settles the entry.
        """
        holder, stolen = holder_of(entry), steals and entry.state is STEALABLE
        if holder is None or not self._is_known(holder):
            return None
        if entry in holder.reserved:  # it was not delivered yet, so the consumer would never settle it
            holder.reserved.remove(entry)
            stolen = False
        if not stolen and not holder.settle(entry):
            return None
        self.claimed -= 1
        self.expiring.remove(entry)  # a stealable entry is still there
        return stolen

    def _let_go(self, holder: "Consumer", entry: "Entry", *, stolen: bool) -> None:
        if not stolen:
            self.credited(holder)
        self._freed(holder, entry)

    def expire_entry(self, entry: "Entry") -> None:
        self._expired(entry)
        self.take_out(entry, Cause.EXPIRED, steals=True)

    def depart(self, entry: "Entry", cause: Cause) -> None:
        """Count an entry that is gone, and forget it."""
        statistics = self.statistics
        statistics.dequeued += 1
        statistics.dequeued_bytes += entry.message.size
        if cause is Cause.ACCEPTED:
            statistics.accepted += 1
        elif cause in _KILLED:
            statistics.killed += 1
        elif cause not in {Cause.MOVED, Cause.COPIED}:
            setattr(statistics, cause.value, getattr(statistics, cause.value) + 1)
        if self.ids is not None:
            del self.ids[entry.message.id]
        self.dispatch.ready.forget(entry)
        if self.dispatch.groups is not None:
            self.dispatch.groups.gone(entry)
        if self.freed is not None:
            self.freed()
        if self._listener is not None:
            self._listener.departed(self._name, entry, cause)

    # Reading.

    def waiting(self) -> "Iterator[Entry]":
        """Return every entry that no consumer holds, first the ready entries in order."""
        return chain(self.dispatch.ready, self.holding, self.schedule, self.parked, self.dead)

    def everything(self) -> "list[Entry]":
        """Return all entries, in any state, in no order."""
        return [*self.waiting(), *self.held()]

    def find(self, message_id: str) -> "Entry | None":
        """Return the entry of the message with this id; None if it is not here, or ids are not unique here."""
        return None if self.ids is None else self.ids.get(message_id)

    def held(self) -> "list[Entry]":
        """Return every claimed entry; consumers that have left may hold some, too."""
        holders = chain(self.dispatch.consumers.all, self.departed)
        return [each for holder in holders for each in holder.unsettled if each.owner is holder]

    def stealable(self) -> "list[Entry]":
        """Return every claimed entry that may be taken back."""
        if not any(consumer.stealable for consumer in chain(self.dispatch.consumers.all, self.departed)):
            return []
        return [entry for entry in self.held() if entry.state is STEALABLE]

    def counts(self) -> dict[State, int]:
        """Return the number of entries in each state; a held entry counts as ready (Qpid)."""
        return {
            SCHEDULED: len(self.schedule),
            READY: len(self.dispatch.ready) + len(self.holding),
            CLAIMED: self.claimed,
            DEAD: len(self.dead),
            PARKED: len(self.parked),
        }
