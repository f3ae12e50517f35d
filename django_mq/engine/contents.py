"""The entries of a queue by state, and the counters of the queue."""

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
    """A store that keeps data for each entry. It is called under the lock, and must not call the queue."""

    def arrived(self, queue: str, entry: "Entry") -> None:
        """Called when an entry is new in this queue."""

    def departed(self, queue: str, entry: "Entry", cause: Cause) -> None:
        """Called when the entry has left this queue for good; it may be in another one by now."""

    def deleted(self, queue: str) -> None:
        """Called when the queue has been deleted."""


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
        #: Removed because a consumer accepted them.
        self.accepted = 0
        #: Removed because their time had passed.
        self.expired = 0
        #: Removed as dead letters, by a purge or by an operator.
        self.killed = 0
        #: Replaced by newer messages, in a ring or in a last-value queue.
        self.replaced = 0
        self.most_depth = 0
        self.most_depth_bytes = 0
        self.most_ready = 0

    @property
    def depth(self) -> int:
        """How many messages the queue holds, in any state."""
        return self.enqueued - self.dequeued

    @property
    def depth_bytes(self) -> int:
        """How many bytes of bodies the queue holds."""
        return self.enqueued_bytes - self.dequeued_bytes

    def reset(self, ready: int) -> None:
        """Count from zero; the messages in the queue stay, and the maxima begin with them."""
        depth, size_bytes = self.depth, self.depth_bytes
        self.__init__()  # type: ignore[misc]
        # Messages in the queue count as neither, but the depth is the difference of both.
        self.dequeued, self.dequeued_bytes = -depth, -size_bytes
        self.most_depth, self.most_depth_bytes, self.most_ready = depth, size_bytes, ready


class Contents:
    """The entries of one queue: ready, held, scheduled and dead ones, each in its own structure.

    A claimed entry is kept by its consumer, and only counted here. ``gone`` is called after an entry has left
    for good. ``expired`` is called with an expired entry, before its removal is counted.
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
        #: Consumers that have left and still hold entries.
        self.departed: dict[Consumer, None] = {}
        #: The time of the last call of ``expire``.
        self.expired_until = NEVER_YET
        self.statistics = Statistics()
        #: The entries by message id, in a queue where an id is unique.
        self.ids: dict[str, Entry] | None = {} if policy.ids_once else None
        self._gone = gone
        self._expired = expired
        self._arrived = arrived

    # Arriving, and being claimed.

    def arrive(self, entry: "Entry") -> None:
        """Add an entry that is new in the queue."""
        if self.ids is not None:
            self.ids[entry.message.id] = entry
        if self._arrived is not None:
            self._arrived(entry)
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
        """Put an entry that is not claimed where its state belongs; a ready one wakes a consumer."""
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
            self.dispatch.ready.forget(entry)  # a dead value replaces no other

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
        self.claimed += 1
        if consumer.stealable:
            entry.lend()  # and it may still expire
        elif entry.expires_at is not None:
            self.calendar.expiring.remove(entry)

    def accepted(self, entry: "Entry", consumer: "Consumer") -> None:
        """Accept an entry of a plain consumer, in a queue where no other consumer is affected."""
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
        """Put a formerly claimed entry where it now belongs; the consumer has credit again.

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
            self.expire_entry(entry)  # it expired while a consumer held it
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
        """Make the due entries ready, ``most`` at most, and return them."""
        due = self.calendar.schedule.pop_until(now, most)
        for entry in due:
            self.calendar.expiring.remove(entry)
            entry.become_due()
            self.place(entry)
        return due

    def unhold(self, overdue: "Iterable[Entry]") -> None:
        """Make held entries ready, in their places."""
        for entry in overdue:
            self.calendar.expiring.remove(entry)
            entry.unhold()
            self.place(entry)

    def expire(self, now: float, most: int | None = None) -> "list[Entry]":
        """Remove the expired entries, ``most`` at most, and return them.

        An entry that a consumer holds, and that is not stealable, is removed when it is returned.
        """
        self.expired_until = now
        expired = self.calendar.expiring.pop_until(now, most)
        for entry in expired:
            self.expire_entry(entry)
        return expired

    # Leaving.

    def depart(self, entry: "Entry", cause: Cause) -> None:
        """Count an entry that is gone, and call ``gone``."""
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
        """Wake the consumer if it can take entries again, and update the other consumers of its target."""
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

    def _freed(self, consumer: "Consumer", entry: "Entry") -> None:
        # After the change of state: the group may be free now, with this entry ready in it.
        if self.dispatch.groups is not None:
            self.dispatch.look_again(self.dispatch.groups.gave_up(consumer, entry))

    def take_out(self, entry: "Entry", cause: Cause) -> bool:
        """Remove an entry in any state; its holder gets its credit back. False if it is not here."""
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
        if entry in holder.reserved:  # or it would be delivered although it is gone
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
        """Remove an entry; False if a consumer holds it: then it is removed when it is returned."""
        if entry.state is not CLAIMED:
            return self.take_out(entry, cause)
        if entry.owner is not None and self._knows(entry.owner):
            entry.doomed = True
        return False

    def steal(self, entry: "Entry", cause: Cause) -> bool:
        """Take a stealable entry away; False if it is not stealable.

        The settlement of its holder will be void, and return the credit.
        """
        holder = entry.owner
        if holder is None or entry.state is not STEALABLE or not self._knows(holder):
            return False
        if entry in holder.reserved:  # never delivered, so its consumer would not settle it
            return self._take_from_holder(entry, cause)
        self.calendar.expiring.remove(entry)
        entry.discard()
        self.claimed -= 1
        self.depart(entry, cause)
        self._freed(holder, entry)
        return True

    def take_back(self, entry: "Entry", cause: Cause) -> bool:
        """Steal an entry if it is stealable, else remove it in any state; False if it is not here."""
        return self.steal(entry, cause) or self.take_out(entry, cause)

    def take_all(self, states: "Container[State]", cause: Cause = Cause.KILLED) -> "list[Entry]":
        """Remove every unclaimed or stealable entry in one of these states, in order; return them."""
        taken = [entry for entry in chain(self.stealable(), self.waiting()) if entry.state in states]
        return [entry for entry in taken if self.take_back(entry, cause)]

    def expire_entry(self, entry: "Entry") -> None:
        self._expired(entry)
        if not self.steal(entry, Cause.EXPIRED):
            self._take_from_place(entry)
            entry.discard()
            self.depart(entry, Cause.EXPIRED)

    # Reading.

    def waiting(self) -> "Iterator[Entry]":
        """Return every entry that no consumer holds: the ready ones first, in order."""
        return chain(self.dispatch.ready, self.holding, self.calendar.schedule, self.dead)

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
        """Return the number of entries in each state; a held one counts as ready (Qpid)."""
        return {
            SCHEDULED: len(self.calendar.schedule),
            READY: len(self.dispatch.ready) + len(self.holding),
            CLAIMED: self.claimed,
            DEAD: len(self.dead),
        }
