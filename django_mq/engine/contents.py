"""The entries of a queue, each kept where its state belongs."""

from typing import TYPE_CHECKING

from django_mq.engine.calendar import Calendar
from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED
from django_mq.engine.dispatch import Dispatch
from django_mq.engine.states import CLAIMED, DEAD, GONE, READY, SCHEDULED, State

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists.base import EntryList


class Contents:
    """Ready entries in line, scheduled ones in the calendar, dead ones aside.

    A claimed entry is kept by its consumer, and only counted here.
    """

    __slots__ = ("calendar", "claimed", "dead", "dispatch", "expired")

    def __init__(self, ready: "EntryList") -> None:
        self.dispatch = Dispatch(ready)
        self.calendar = Calendar()
        self.claimed = 0
        self.dead: dict[Entry, None] = {}
        #: Removed because they had expired, and not yet answered to anybody.
        self.expired: list[Entry] = []

    def place(self, entry: "Entry") -> None:
        """Keep an entry that is ready, scheduled or dead; ready ones wake a consumer."""
        if entry.state is READY:
            if entry.message.expires_at is not None:
                self.calendar.watch(entry, entry.message.expires_at)
            self.dispatch.stand(entry)
        elif entry.state is SCHEDULED:
            self.calendar.hold(entry)
        elif entry.state is DEAD:
            self.dead[entry] = None

    def claim_for(self, consumer: "Consumer") -> "Entry | None":
        """As ``Dispatch.claim_for``."""
        entry = self.dispatch.claim_for(consumer)
        if entry is not None and entry.state is CLAIMED:
            self.claimed += 1
            if entry.message.expires_at is not None:
                self.calendar.expiring.remove(entry)
        return entry

    def settled(self, entry: "Entry", consumer: "Consumer", moved: bool) -> bool:
        """Keep a claimed entry where it now belongs, if it moved; the consumer has credit again."""
        if moved:
            self.claimed -= 1
            if entry.state is not GONE:
                self.place(entry)
        if consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.dispatch.refresh(consumer)
        return moved

    def deliver_now(self, entry: "Entry") -> bool:
        """Make a scheduled entry ready; False if it is not here."""
        if entry.state is not SCHEDULED or not self.calendar.schedule.remove(entry):
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

    def take_out(self, entry: "Entry") -> bool:
        """Remove an entry in whatever state; its holder has its credit again. False if it is not here."""
        if entry.state is CLAIMED:
            return self._take_from_holder(entry)
        if entry.state is READY:
            here = self.dispatch.leave(entry)
            self.calendar.expiring.remove(entry)
        elif entry.state is SCHEDULED:
            here = self.calendar.schedule.remove(entry)
        else:
            here = self.dead.pop(entry, self) is None
        return here and entry.discard()

    def _take_from_holder(self, entry: "Entry") -> bool:
        holder = entry.owner
        if holder is None or holder not in self.dispatch.consumers.all or not holder.settle(entry):
            return False
        return self.settled(entry, holder, entry.accept(holder))

    def take_all(self, states: "Container[State]") -> "list[Entry]":
        """Remove every entry that waits in one of these states, in order; claimed ones stay."""
        waiting: dict[State, Iterable[Entry]] = {
            READY: self.dispatch.ready,
            SCHEDULED: self.calendar.schedule,
            DEAD: self.dead,
        }
        taken = [entry for state, entries in waiting.items() if state in states for entry in entries]
        return [entry for entry in taken if self.take_out(entry)]

    def catch_up(self, now: float) -> None:
        """Do what time has brought since the last call."""
        self.promote(now)  # first, for what became due may have expired meanwhile
        self.expire(now)
        self.calendar.look_again()

    def promote(self, now: float, most: int | None = None) -> "list[Entry]":
        """Make the due entries ready: all of them, or so many."""
        due = self.calendar.schedule.pop_until(now, most)
        for entry in due:
            entry.become_due()
            self.place(entry)
        return due

    def expire(self, now: float) -> None:
        """Remove every ready entry that has expired."""
        for entry in self.calendar.expiring.pop_until(now):
            self.dispatch.leave(entry)
            entry.discard()
            self.expired.append(entry)

    def counts(self) -> dict[State, int]:
        """How many entries are in each state."""
        return {
            SCHEDULED: len(self.calendar.schedule),
            READY: len(self.dispatch.ready),
            CLAIMED: self.claimed,
            DEAD: len(self.dead),
        }
