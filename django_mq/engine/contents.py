"""The entries of a queue, each kept where its state belongs."""

from typing import TYPE_CHECKING

from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED
from django_mq.engine.departing import Cause, Departing
from django_mq.engine.expiry import is_expired
from django_mq.engine.states import DEAD, GONE, HELD, READY, SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry


class Contents(Departing):
    """Ready entries in line, held ones beside it, scheduled ones in the calendar, dead ones aside.

    A claimed entry is kept by its consumer, and only counted here.
    """

    __slots__ = ()

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
