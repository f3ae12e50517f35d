"""The entries of a queue, each kept where its state belongs, and what is counted of them."""

from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED
from django_mq.engine.dispatch import Dispatch
from django_mq.engine.expiry import is_expired
from django_mq.engine.rules import IN_PROCESS, QueuePolicy
from django_mq.engine.states import CLAIMED, DEAD, GONE, HELD, READY, SCHEDULED, STEALABLE, Cause, State
from django_mq.engine.timeline import Calendar, Holding

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists import EntryList


#: Before any time.
NEVER_YET: Final = float("-inf")
_KILLED: Final = frozenset({Cause.KILLED, Cause.CANCELLED, Cause.PURGED})


class Listener(Protocol):
    """A store that keeps something for each entry. It is called under the lock, and must not call the queue."""

    def arrived(self, queue: str, entry: "Entry") -> None:
        """An entry is new in this queue."""

    def departed(self, queue: str, entry: "Entry", cause: Cause) -> None:
        """The entry has left this queue for good; it may stand in another one by now."""

    def deleted(self, queue: str) -> None:
        """The queue is no more."""


class Statistics:
    """The counters of one queue. Removal for any reason counts as ``dequeued``.

    Bytes are those of the bodies.
    """

    __slots__ = (
        "accepted",
        "dequeued",
        "dequeued_bytes",
        "enqueued",
        "enqueued_bytes",
        "expired",
        "killed",
        "most_depth",
        "most_depth_bytes",
        "most_ready",
        "replaced",
    )

    def __init__(self) -> None:
        self.enqueued = 0
        self.enqueued_bytes = 0
        self.dequeued = 0
        self.dequeued_bytes = 0
        #: Removed because a consumer was done with them.
        self.accepted = 0
        #: Removed because their time had passed.
        self.expired = 0
        #: Removed as dead letters, by a purge or by an operator.
        self.killed = 0
        #: Removed in favour of others: by a ring, or a later value of their key.
        self.replaced = 0
        self.most_depth = 0
        self.most_depth_bytes = 0
        self.most_ready = 0

    @property
    def depth(self) -> int:
        """How many messages are here, in whatever state."""
        return self.enqueued - self.dequeued

    @property
    def depth_bytes(self) -> int:
        """How many bytes are here."""
        return self.enqueued_bytes - self.dequeued_bytes

    def reset(self, ready: int) -> None:
        """Count from zero; what is here stays, and is the most there has been."""
        depth, size_bytes = self.depth, self.depth_bytes
        self.__init__()  # type: ignore[misc]
        # What is here counts as neither enqueued nor dequeued, but both must differ by it.
        self.dequeued, self.dequeued_bytes = -depth, -size_bytes
        self.most_depth, self.most_depth_bytes, self.most_ready = depth, size_bytes, ready


class Contents:
    """Ready entries in line, held ones beside it, scheduled ones in the calendar, dead ones aside.

    A claimed entry is kept by its consumer, and only counted here. ``gone`` is called after an entry has left
    for good, ``expired`` with one whose time has passed, already taken out.
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

    # Coming, and being held.

    def arrive(self, entry: "Entry") -> None:
        """Keep an entry that is new here."""
        if self.ids is not None:
            self.ids[entry.message.id] = entry
        if self._arrived is not None:
            self._arrived(entry)
        statistics, size = self.statistics, entry.message.size
        statistics.enqueued = enqueued = statistics.enqueued + 1
        statistics.enqueued_bytes = enqueued_bytes = statistics.enqueued_bytes + size
        # Compared, not asked of max: three calls would cost more than all of this.
        depth, depth_bytes = enqueued - statistics.dequeued, enqueued_bytes - statistics.dequeued_bytes
        if depth > statistics.most_depth:  # noqa: PLR1730
            statistics.most_depth = depth
        if depth_bytes > statistics.most_depth_bytes:  # noqa: PLR1730
            statistics.most_depth_bytes = depth_bytes
        consumers = self.dispatch.consumers
        noticed = consumers.idle or consumers.views or consumers.blocked
        if entry.state is READY and entry.expires_at is None and not noticed:
            replaced = self.dispatch.ready.add(entry)
            if replaced is not None:
                self._replace(replaced)
            if depth - self.claimed > statistics.most_ready:
                self._note_ready()
        else:
            self.place(entry)

    def _note_ready(self) -> None:
        self.statistics.most_ready = max(self.statistics.most_ready, len(self.dispatch.ready))

    def place(self, entry: "Entry") -> None:
        """Keep an entry that is not claimed; a ready one wakes a consumer."""
        if entry.state is READY:
            if entry.expires_at is not None:
                self.calendar.watch(entry)
            replaced = self.dispatch.stand(entry)
            if replaced is not None:
                self._replace(replaced)
            self._note_ready()
        elif entry.state is SCHEDULED:
            if entry.expires_at is not None and self.policy.expires_scheduled:
                self.calendar.watch(entry)
            self.calendar.hold(entry)
        elif entry.state is HELD:
            if entry.expires_at is not None:
                self.calendar.watch(entry)
            self.holding.add(entry)
        elif entry.state is DEAD:
            self.dead[entry] = None
            self.dispatch.ready.forget(entry)  # a dead value does not outdo a living one

    def _replace(self, entry: "Entry") -> None:
        for_good = self.policy.replaces_for_good
        if entry.is_claimed:
            entry.replaced = for_good
            return
        if entry.state is not READY and not (for_good and entry.state is SCHEDULED):
            return
        self.calendar.expiring.remove(entry)
        self.calendar.schedule.remove(entry)  # it may wait there for its next attempt
        entry.discard()
        self.depart(entry, Cause.REPLACED)

    def claimed_by(self, consumer: "Consumer", entry: "Entry") -> None:
        """Note that an entry has just been claimed."""
        self.claimed += 1
        if consumer.stealable:
            entry.lend()  # and it may still expire
        elif entry.expires_at is not None:
            self.calendar.expiring.remove(entry)

    def accepted(self, entry: "Entry", consumer: "Consumer") -> None:
        """Accept what a plain consumer holds in a queue where that concerns nobody else."""
        del consumer.unsettled[entry]
        size = entry.message.size
        consumer.credit.give_back(size)
        entry.state = GONE
        entry.owner = None
        self.claimed -= 1
        statistics = self.statistics
        statistics.dequeued += 1
        statistics.dequeued_bytes += size
        statistics.accepted += 1
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)

    def settled(self, entry: "Entry", consumer: "Consumer", cause: Cause = Cause.ACCEPTED) -> None:
        """Keep a formerly claimed entry where it now belongs; the consumer has credit again.

        ``cause``: why it is gone, if it is.
        """
        self.claimed -= 1
        if consumer.stealable:
            self.calendar.expiring.remove(entry)
        if entry.state is GONE:
            self.depart(entry, cause)
        elif (entry.doomed or entry.replaced) and entry.state is not DEAD:
            entry.discard()
            self.depart(entry, Cause.KILLED if entry.doomed else Cause.REPLACED)
        elif self._has_expired_meanwhile(entry):
            self.expire_entry(entry)  # as it would have been, had nobody held it fast
        else:
            self.place(entry)
        self.credited(consumer)
        self._freed(consumer, entry)

    def _has_expired_meanwhile(self, entry: "Entry") -> bool:
        return not self.policy.delivers_expired and entry.state is READY and is_expired(entry, self.expired_until)

    def lift(self, entry: "Entry") -> None:
        """Take an entry that no consumer holds out of its place, ready to be claimed."""
        self._take_from_place(entry)
        if entry.state is DEAD:
            entry.cause, entry.died_at = "", None
        entry.state, entry.due_at = READY, None

    # Time.

    def deliver_now(self, entry: "Entry") -> bool:
        """Make a scheduled entry ready; False if it is not here."""
        if entry.state is not SCHEDULED or not self._take_from_place(entry):
            return False
        entry.become_due()
        self.place(entry)
        return True

    def redrive(self, entry: "Entry") -> bool:
        """Make a dead entry ready again; False if it is not here."""
        if entry not in self.dead:
            return False
        del self.dead[entry]
        entry.redrive()
        self.place(entry)
        return True

    def promote(self, now: float, most: int | None = None) -> "list[Entry]":
        """Make the due entries ready: all of them, or so many."""
        due = self.calendar.schedule.pop_until(now, most)
        for entry in due:
            self.calendar.expiring.remove(entry)
            entry.become_due()
            self.place(entry)
        return due

    def unhold(self, overdue: "Iterable[Entry]") -> None:
        """Let held entries stand ready in their places."""
        for entry in overdue:
            self.calendar.expiring.remove(entry)
            entry.unhold()
            self.place(entry)

    def expire(self, now: float, most: int | None = None) -> "list[Entry]":
        """Remove every entry that has expired, or so many; one that is held fast goes when it is given back."""
        self.expired_until = now
        expired = self.calendar.expiring.pop_until(now, most)
        for entry in expired:
            self.expire_entry(entry)
        return expired

    # Leaving.

    def depart(self, entry: "Entry", cause: Cause) -> None:
        """Count an entry that is gone, and tell who must know."""
        statistics = self.statistics
        statistics.dequeued += 1
        statistics.dequeued_bytes += entry.message.size
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
