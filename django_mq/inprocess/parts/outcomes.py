"""How a delivery ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.engine.decisions.verdict import Ending, Verdict, verdict
from django_mq.engine.states import (
    ACCEPTED,
    DEAD,
    DISCARDED,
    GONE,
    PARKED,
    QUEUE_DELETED,
    READY,
    RETURNED,
    SCHEDULED,
    STEALABLE,
    VOID,
    Cause,
    Fate,
)
from django_mq.inprocess.entries.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.parts.state import CommonState


class Outcomes:
    """Settles deliveries. Each call returns the fate of the entry.

    If the consumer holds the entry no longer, the settlement is void and only returns the credit; a second
    settlement does not even do that. ``claim_number``, as read at delivery, distinguishes two deliveries to one
    consumer.
    """

    def __init__(self, state: CommonState) -> None:
        self._state = state
        self._contents = state.contents

    def settle(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None,
        move: Callable[[Entry, Consumer], bool],
        cause: Cause = Cause.ACCEPTED,
    ) -> Fate:
        """End a delivery by a move of the entry, for example ``Entry.accept``."""
        if consumer.queue is not self._state.queue or not consumer.settle(entry, claim_number):
            return VOID
        if entry.state is STEALABLE:
            entry.lock(consumer)
        contents = self._contents
        if not move(entry, consumer):
            contents.credited(consumer)
            fate = VOID
        else:
            contents.settled(entry, consumer, cause)
            fate = ACCEPTED if move is Entry.accept else self._returned(entry)
        if contents.departed and not consumer.unsettled:
            contents.departed.pop(consumer, None)
        if not self._state.gate.is_open:  # a closed gate waits until no entry is claimed
            self._state.look_at_gate()
        return fate

    def _returned(self, entry: Entry) -> Fate:
        if self._state.deleted and entry.state is not GONE and entry.state is not DEAD:
            return self.expel(entry)
        if self._state.is_deserted and entry.state in {READY, SCHEDULED, PARKED}:
            self._contents.take_out(entry, Cause.KILLED)
        elif entry.state is READY and not self._state.plain:
            self._state.capacity.look_again(None)
        return DISCARDED if entry.state is GONE else RETURNED

    def decline(self, entry: Entry, consumer: Consumer, claim_number: int | None) -> Fate:
        """Return the entry to its place for the other consumers; this one is not offered it again."""
        if entry.owner is consumer and consumer.queue is self._state.queue:
            # Before it gets its credit back, or it would be woken for this entry.
            self._state.dispatch.give_position(consumer, always=True)
        return self.settle(entry, consumer, claim_number, Entry.decline)

    def fail(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None = None,
        *,
        retry_at: float | None = None,
        delay_seconds: float | None = 0.0,
    ) -> Fate:
        """Return the entry to its place now, at ``retry_at``, or after the delay; the attempt counts.

        Without a delay, None, the queue's backoff says how long. The last attempt that the queue allows makes the
        entry dead.
        """
        decision = verdict(Ending.FAILED, entry.attempts, self._state.rules, delay_seconds)
        if decision.verdict is Verdict.DEAD:
            return self.bury(entry, consumer, claim_number, "max attempts")
        if decision.delay_seconds > 0:
            retry_at = self._state.now + decision.delay_seconds
        return self.settle(entry, consumer, claim_number, partial(Entry.fail, due_at=retry_at))

    def bury(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None,
        cause: str,
        *,
        counted: bool = True,
        stays: bool = False,
    ) -> Fate:
        """Send the entry to the dead-letter queue, or keep it as dead; with ``stays`` it is always kept."""
        if not self.settle(entry, consumer, claim_number, Entry.reject):
            return VOID
        state = self._state
        entry.attempts -= not counted
        entry.suspect = entry.replaced = False
        if stays:
            entry.cause, entry.died_at = cause, state.now
            return Fate.DEAD
        fate = state.afterlife.dead(entry, state.now, cause)
        if fate is Fate.DEAD and not state.deleted:
            return fate
        self._contents.take_out(entry, Cause.KILLED)
        return DISCARDED if fate is Fate.DEAD else fate

    def report_expired(self, entry: Entry, consumer: Consumer, claim_number: int | None) -> Fate:
        """Send a claimed message that has expired to the expiry queue, or drop it; the attempt does not count."""
        held = consumer.queue is self._state.queue and entry.owner is consumer and entry in consumer.unsettled
        if not held or claim_number not in (None, consumer.unsettled[entry]):
            return VOID
        entry.attempts -= 1
        if not entry.replaced:
            self._state.note_expired(entry)
        cause = Cause.REPLACED if entry.replaced else Cause.EXPIRED
        return self.settle(entry, consumer, claim_number, Entry.accept, cause)

    def begin(self, entry: Entry, consumer: Consumer) -> bool:
        """Prevent that the entry is taken back from now on; False if the consumer does not hold it any more."""
        if consumer.queue is not self._state.queue or entry not in consumer.unsettled or not entry.lock(consumer):
            return False
        self._contents.expiring.remove(entry)  # it may expire when it is given back
        return True

    def expel(self, entry: Entry) -> Fate:
        """Send an entry of a deleted queue to the dead-letter queue."""
        fate = self._state.afterlife.dead(entry, self._state.now, QUEUE_DELETED)
        self._contents.take_out(entry, Cause.KILLED, steals=True)
        return DISCARDED if fate is Fate.DEAD else fate

    def lose(self, entry: Entry, consumer: Consumer) -> Fate:
        """Return an entry of a dead session to its place, uncounted, as a suspect; see ``lose_consumer``."""
        entry.redelivered = True
        move = Entry.fail if entry.suspect else Entry.release
        decision = verdict(Ending.FAILED, entry.attempts, self._state.rules, 0.0)
        if entry.suspect and not entry.replaced and decision.verdict is Verdict.DEAD:
            return self.bury(entry, consumer, None, "worker lost", stays=True)
        entry.suspect = True
        return self.settle(entry, consumer, None, move)
