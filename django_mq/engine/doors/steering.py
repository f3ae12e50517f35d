"""The operators' door."""

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.afterlife import ORIGIN_QUEUE
from django_mq.engine.departing import Cause
from django_mq.engine.doors.publishing import Publishing
from django_mq.engine.overflow import Overflow
from django_mq.engine.states import DEAD, GONE, HELD, READY, SCHEDULED, State
from django_mq.engine.verdict import BY_EXPIRY
from django_mq.errors import IllegalMove, OutOfRange, PublishError

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.engine.queue import Queue
    from django_mq.engine.rules import Rules

#: What a purge takes: everything that has yet to be delivered.
UNDELIVERED: Final = (READY, HELD, SCHEDULED)


class Steering(Publishing):
    """Pauses, removes, moves, and changes the rules."""

    def pause(self) -> None:
        """Deliver nothing; everything else goes on."""
        with self.lock:
            self._paused = True
            self._halt_or_go()

    def resume(self) -> None:
        """Deliver again."""
        with self.lock:
            self._paused = False
            self._halt_or_go()

    @property
    def paused(self) -> bool:
        """Whether delivery is paused."""
        return self._paused

    def deliver_now(self, entry: "Entry") -> bool:
        """Make a scheduled entry ready before its time, in its place; False if it is not scheduled here."""
        with self.lock:
            return self._contents.deliver_now(entry) and self._make_room(entry)

    def redrive(self, entry: "Entry") -> bool:
        """Make a dead entry ready again, in its place, its attempts forgotten."""
        with self.lock:
            if entry.state is DEAD and self.policy.redrives_for_ever:
                entry.expires_at = None
            return self._contents.redrive(entry) and self._make_room(entry)

    def _make_room(self, entry: "Entry") -> bool:
        if not self._plain:
            self._room.look_again(entry)
        return True

    def remove(self, entry: "Entry", cause: Cause = Cause.KILLED) -> bool:
        """Take an entry away in whatever state; False if it was not here.

        A consumer that holds it has its credit again, and its settlement will be void.
        """
        with self.lock:
            return self._contents.take_out(entry, cause)

    def reschedule(self, entry: "Entry", due_at: float, now: float) -> bool:
        """Have an entry that waits delivered at another time, where messages stand that are due then.

        False, and nothing happens, if the entry does not wait, or is a value of a last-value queue.
        """
        with self.lock:
            waits = entry.state is READY or entry.state is SCHEDULED
            if not waits or self._value_of(entry.message) is not None:
                return False
            self._contents.lift(entry)
            entry.stand_at(self.placement.place_at(due_at), entry.arrival)
            if due_at > now:
                entry.state, entry.due_at = SCHEDULED, due_at
            self._contents.place(entry)
            return True

    def discard(self, entry: "Entry", cause: Cause = Cause.KILLED) -> bool:
        """Take an entry away if nobody holds it fast; False if it goes only when it is given back."""
        with self.lock:
            return self._contents.steal(entry, cause) or self._contents.take_free(entry, cause)

    def cancel(self, entry: "Entry") -> bool:
        """Take a scheduled entry away, as if it had been accepted; False if it is not scheduled here."""
        with self.lock:
            return entry.state is SCHEDULED and self._contents.take_out(entry, Cause.ACCEPTED)

    def purge(self, states: Collection[State] = UNDELIVERED) -> "list[Entry]":
        """Remove and answer all entries in these states; claimed ones stay with their consumers."""
        with self.lock:
            return self._contents.take_all(states, Cause.PURGED)

    def trim(self) -> int:
        """Make room in a ring that holds too much, as an arrival does; the newest entry stays. How many went."""
        with self.lock:
            before = self._contents.statistics.replaced
            if self.rules.overflow is Overflow.RING:
                self._room.check(max(self.everything(), key=attrgetter("arrival"), default=None))
            return self._contents.statistics.replaced - before

    def clear(self) -> int:
        """Remove everything: at once what can be taken, which is counted; the rest when it is given back."""
        with self.lock:
            entries = [*self._contents.held(), *self._contents.waiting()]
            return sum([self.discard(entry) for entry in entries])

    def move(self, entry: "Entry", target: "Queue", now: float, *, more: bool = False) -> bool:
        """Move an entry that nobody holds; False if it cannot be taken.

        It arrives as a new one, with its schedule and its end. Raises IllegalMove if the target
        is this queue, QueueFull if it would come over its limits, even if it takes what others
        publish then, and as ``publish`` if the target refuses it; nothing is moved then. With ``more``
        others follow, and ``entered`` is to be called with the last.
        """
        if target is self:
            raise IllegalMove("A message cannot be moved to the queue it is in.")
        with self._both(target):
            if entry.state not in UNDELIVERED and entry.state is not DEAD:
                return False
            message = self.travelling(entry)
            target.admit(message, in_limits=True)
            again = target.placement.entry_again(entry, message)
            if not self._contents.take_out(entry, Cause.MOVED):
                return False
            if not self.policy.keeps_end:
                target.publish(message, now)
                return True
            target.offer_again(again)
            if not more:
                target.entered(again)
            return True

    def station(self, *, expired: bool) -> "Queue | None":
        """The queue that expired messages, or dead letters, go to; None if there is none."""
        return self._afterlife.station(expired=expired)

    def send_on(self, entry: "Entry", station: "Queue", now: float, *, expired: bool) -> "Entry | None":
        """Send an expired or dead entry there with others, for which ``station`` has room; the one that arrives.

        None if it is gone meanwhile, or would be expired on arrival.
        """
        with self._both(station):
            if expired:
                entry.cause, entry.died_at = BY_EXPIRY, now
            message = None if entry.state is GONE else self._afterlife.leaving(entry, station, now)
            if message is None:
                return None
            arrived = station.enter(message, now)
            arrived.cause = entry.cause
            self._contents.take_back(entry, Cause.EXPIRED if expired else Cause.KILLED)
            return arrived

    def _both(self, target: "Queue") -> ExitStack:
        """The locks of both queues, always in one order: two moves towards each other must not wait for ever."""
        both = ExitStack()
        for lock in sorted((self.lock, target.lock), key=id):
            both.enter_context(lock)
        return both

    def travelling(self, entry: "Entry") -> "Message":
        """The message of an entry as it is moved: with its schedule, if that is not over."""
        due_at = entry.due_at if entry.state is SCHEDULED or entry.state is HELD else None
        return replace(entry.message, deliver_at=due_at, duplicate_id=None)

    def change_priority(
        self, entry: "Entry", priority: int, now: float, *, new_id: str | None = None
    ) -> "Entry | None":
        """Replace an entry that waits by a copy of another priority, last in its level.

        The copy has been attempted as often, unless it gets an id of its own. None, and nothing
        happens, if the entry does not wait or has this priority already. Raises OutOfRange unless
        the priority is a whole number in 0..9.
        """
        if not isinstance(priority, int) or not 0 <= priority <= 9:
            raise OutOfRange(f"A priority lies in 0..9, not {priority!r}.")
        with self.lock:
            waits = entry.state is READY or (self.policy.reprioritises_scheduled and entry.state is SCHEDULED)
            if not waits or entry.message.priority == priority:
                return None
            message = replace(self.travelling(entry), priority=priority, id=new_id or entry.message.id)
            copy = self.placement.entry_again(entry, message)
            if entry.state is SCHEDULED:  # it may wait for its next attempt, in the place that it had
                copy.stand_at(entry.place, copy.arrival)
            if not self._contents.take_out(entry, Cause.MOVED):
                return None
            if new_id is None:
                copy.attempts, copy.suspect, copy.cause = entry.attempts, entry.suspect, entry.cause
            else:
                copy.redelivered = False
            self._now = now
            self.offer_again(copy)
            return copy

    def retry(self, now: float) -> int:
        """Send every message that died or expired elsewhere back to where it came from; how many went.

        What the queue there refuses stays here.
        """
        with self.lock:
            return sum([self._go_back(entry, now) for entry in list(self._contents.waiting())])

    def _go_back(self, entry: "Entry", now: float) -> bool:
        name = entry.message.headers.get(ORIGIN_QUEUE)
        origin = self._resolve(name) if isinstance(name, str) else None
        try:
            return origin is not None and origin is not self and self.move(entry, origin, now)
        except PublishError:
            return False

    def close_group(self, group: str) -> None:
        """Let somebody else own a group."""
        with self.lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.close(group))

    def reset_groups(self) -> None:
        """Let all groups find new owners."""
        with self.lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.reset())

    def change(self, rules: "Rules") -> None:
        """Follow other rules from now on. Raises IllegalMove for another kind of list."""
        if (rules.kind, rules.key) != (self.rules.kind, self.rules.key):
            raise IllegalMove("A queue keeps its kind and key for life; make another queue and move the messages.")
        with self.lock:
            self._follow(rules)
            for consumer in list(self._dispatch.consumers.all):
                self._dispatch.give_position_if_needed(consumer)
                self._dispatch.refresh(consumer)
            self._look_at_gate()
