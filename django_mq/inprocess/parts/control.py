"""What operators do with one queue and its entries."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.limits import Overflow
from django_mq.engine.decisions.places import ORDINARY_PLACE
from django_mq.engine.states import DEAD, HELD, PARKED, READY, SCHEDULED, Cause
from django_mq.errors import IllegalMove, OutOfRange

if TYPE_CHECKING:
    from collections.abc import Collection
    from threading import RLock

    from django_mq.engine.message import Message
    from django_mq.engine.states import State
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.parts.due import DueEntries
    from django_mq.inprocess.parts.state import CommonState
    from django_mq.inprocess.parts.subscribers import Subscribers
    from django_mq.inprocess.rules import Rules

#: The states that a purge removes: not delivered yet.
UNDELIVERED: Final = (READY, HELD, SCHEDULED, PARKED)


class Control:
    """The interface of one queue to operators. Any thread may call it: each method takes the queue's lock."""

    def __init__(self, state: CommonState, due: DueEntries, subscribers: Subscribers, lock: RLock) -> None:
        self._state = state
        self._contents, self._dispatch = state.contents, state.dispatch
        self._due, self._subscribers = due, subscribers
        self._lock = lock

    # The queue.

    def pause(self) -> None:
        """Deliver nothing; everything else goes on."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        with self._lock:
            self._state.paused = paused
            self._state.halt_or_go()

    def change(self, rules: Rules) -> None:
        """Use other rules from now on. Raises IllegalMove for another kind of list."""
        with self._lock:
            old = self._state.rules
            if (rules.kind, rules.key) != (old.kind, old.key):
                raise IllegalMove(
                    "A queue keeps its kind and key for life; make another queue and move the messages."
                )
            self._state.change(rules)
            for consumer in self._subscribers.all():
                self._dispatch.give_position(consumer)
                self._dispatch.refresh(consumer)
            self._state.look_at_gate()

    def delete(self, now: float) -> None:
        """Close the queue for ever: close its consumers, and make dead letters of entries that no consumer holds.

        Entries that consumers hold follow when they are returned.
        """
        with self._lock:
            self._state.now = now
            self._subscribers.close_for_ever()

    # Its groups.

    def close_group(self, group: str) -> None:
        """Let another consumer own a group."""
        with self._lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.close(group))

    def assign_group(self, group: str, consumer: Consumer) -> None:
        """Give a group to another owner."""
        with self._lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.assign(group, consumer))

    def reset_groups(self) -> None:
        with self._lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.reset())

    # One entry.

    def deliver_now(self, entry: Entry) -> bool:
        """Make a scheduled entry ready before its time, in its place; False if it is not scheduled here."""
        with self._lock:
            if self._due.arrives_anew(entry):
                return bool(self._due.arrived([entry]))
            return entry.state is SCHEDULED and self._stand_again(entry)

    def redrive(self, entry: Entry) -> bool:
        """Make a dead entry ready again, in its place, without its attempts; False if it is not dead here."""
        with self._lock:
            if entry not in self._contents.dead:
                return False
            if self._state.policy.redrives_for_ever:
                entry.expires_at = None
            entry.attempts, entry.redelivered = 0, True
            if self._contents.fair.fairness is not None:
                entry.stand_at(ORDINARY_PLACE, entry.arrival)
            return self._stand_again(entry)

    def _stand_again(self, entry: Entry) -> bool:
        here = bool(self._contents.stand_again([entry]))
        if here and not self._state.plain:
            self._state.capacity.look_again(entry)
        return here

    def park(self, entry: Entry, key: str, until: float | None) -> bool:
        """Let a ready entry wait until its key is freed, or until a time; False if it is not ready here."""
        with self._lock:
            return self._contents.park(entry, key, until)

    def free(self, entry: Entry) -> bool:
        """Make a parked entry ready, in its place; False if it is not parked here."""
        with self._lock:
            return entry.state is PARKED and self._stand_again(entry)

    def bury(self, entry: Entry, now: float, reason: str) -> bool:
        """Make a ready, scheduled, parked or stealable entry dead; False if it is in another state.

        It stays: a store sends it on.
        """
        with self._lock:
            if not self._contents.bury(entry, reason):
                return False
            entry.died_at = now
            return True

    def remove(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry in any state; False if it was not here.

        A consumer that holds it gets its credit back, and its settlement will be void.
        """
        with self._lock:
            return self._contents.take_out(entry, cause)

    def discard(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry; False if a consumer holds it: then it is removed when it is returned."""
        with self._lock:
            return self._contents.take_out(entry, cause, steals=True, spares=True)

    def cancel(self, entry: Entry) -> bool:
        """Remove a scheduled entry as if it had been accepted; False if it is not scheduled here."""
        with self._lock:
            return entry.state is SCHEDULED and self._contents.take_out(entry, Cause.ACCEPTED)

    def reschedule(self, entry: Entry, due_at: float, now: float) -> bool:
        """Deliver a ready or scheduled entry at another time, in the place of messages due then.

        False, and nothing happens, if the entry is in another state, or a value of a last-value queue.
        """
        with self._lock:
            waits = entry.state is READY or entry.state is SCHEDULED
            is_value = self._dispatch.ready.value_of(entry.message) is not None
            if not waits or is_value or not self._contents.lift(entry):
                return False
            if self._state.rules.sorting is None:
                entry.stand_at(self._state.placement.place_at(due_at), entry.arrival)
            if due_at > now:
                entry.state, entry.due_at = SCHEDULED, due_at
            self._contents.place(entry)
            return True

    def change_priority(
        self, entry: Entry, priority: int, now: float, *, new_id: str | None = None
    ) -> Entry | None:
        """Replace a ready or scheduled entry by a copy of another priority, last in its level.

        The copy keeps the attempts, unless it gets an id of its own. None, and nothing
        happens, if the entry is in another state or has this priority already. Raises OutOfRange unless
        the priority is a whole number in 0..9.
        """
        if not isinstance(priority, int) or not 0 <= priority <= 9:
            raise OutOfRange(f"A priority lies in 0..9, not {priority!r}.")
        with self._lock:
            waits = entry.state is READY
            waits = waits or (self._state.policy.reprioritises_scheduled and entry.state is SCHEDULED)
            if not waits or entry.message.priority == priority:
                return None
            message = replace(travelling(entry), priority=priority, id=new_id or entry.message.id)
            return self._replace(entry, message, now)

    def _replace(self, entry: Entry, message: Message, now: float) -> Entry | None:
        copy = self._state.placement.entry_again(entry, message)
        if entry.state is SCHEDULED:  # its place may be that of its first attempt
            copy.stand_at(entry.place, copy.arrival)
        if not self._contents.take_out(entry, Cause.COPIED):
            return None
        if message.id == entry.message.id:
            copy.attempts, copy.suspect, copy.cause = entry.attempts, entry.suspect, entry.cause
        else:
            copy.redelivered = False
        self._state.now = now
        self._state.arrive_again(copy)
        if copy.state is SCHEDULED and not self._due.arrives_anew(copy):
            self._dispatch.ready.expect(copy)
        return copy

    # Many entries.

    def purge(self, states: Collection[State] = UNDELIVERED) -> list[Entry]:
        """Remove and return all entries in these states; claimed ones stay with their consumers."""
        with self._lock:
            free = [*self._contents.stealable(), *self._contents.waiting()]
            chosen = [entry for entry in free if entry.state in states]
            return [entry for entry in chosen if self._contents.take_out(entry, Cause.PURGED, steals=True)]

    def clear(self) -> int:
        """Remove all entries, claimed ones when they are returned; return how many were removed at once."""
        with self._lock:
            entries = [*self._contents.held(), *self._contents.waiting()]
            return sum([self.discard(entry) for entry in entries])

    def trim(self) -> int:
        """Evict from a ring that is too full, as an arrival does, but not the newest; return how many."""
        with self._lock:
            statistics, dead = self._contents.statistics, self._contents.dead
            before = statistics.replaced + len(dead)
            if self._state.rules.overflow is Overflow.RING:
                newest = max(self._contents.everything(), key=attrgetter("arrival"), default=None)
                self._state.capacity.check(newest)
            return statistics.replaced + len(dead) - before


def is_movable(entry: Entry) -> bool:
    """Whether an entry may leave for another queue: no consumer holds it."""
    return entry.state in UNDELIVERED or entry.state is DEAD


def travelling(entry: Entry) -> Message:
    """Return the message of an entry as it is moved: with its schedule, if that is not over."""
    due_at = entry.due_at if entry.state is SCHEDULED or entry.state is HELD else None
    return replace(entry.message, deliver_at=due_at, duplicate_id=None)
