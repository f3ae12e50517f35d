"""How deliveries end.

Each settlement answers what it did. It is void, and changes nothing but the consumer's
credit, if the entry is no longer the consumer's; settled twice, it does not even do that.
``claim_number``, as read at delivery, tells two deliveries to one consumer apart.
"""

from functools import partial
from typing import TYPE_CHECKING

from django_mq.engine.departing import Cause
from django_mq.engine.doors.core import Core
from django_mq.engine.entry import Entry
from django_mq.engine.fate import ACCEPTED, DISCARDED, QUEUE_DELETED, RETURNED, VOID, Fate
from django_mq.engine.states import DEAD, GONE, READY, SCHEDULED, STEALABLE
from django_mq.engine.timeline import NEVER
from django_mq.engine.verdict import Ending, Verdict, verdict
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.consumer import Consumer


def _check_time(time: float | None) -> None:
    # A schedule with a NaN in it is in no order: what is due behind it would never be found.
    if time is not None and not (isinstance(time, int | float) and -NEVER <= time <= NEVER):
        raise OutOfRange(f"A time is a number of seconds, not {time!r}.")


class Settling(Core):
    """Accepts, gives back, and buries."""

    def accept(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None) -> Fate:
        """Done: the entry is gone."""
        self._acquire()
        try:
            # The way of nearly every message first: a plain consumer that is still here.
            if (
                self._short
                and consumer.plain
                and entry.owner is consumer
                and (claim_number is None or claim_number == entry.claim_number)
                and consumer.queue is self
            ):
                self._contents.accepted(entry, consumer)
                return ACCEPTED
            return self._settle(entry, consumer, claim_number, Entry.accept)
        finally:
            self._release()

    def release(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None = None,
        *,
        retry_at: float | None = None,
        counted: bool = False,
        delivered: bool = True,
    ) -> Fate:
        """Back to its place, at once or at ``retry_at``; the attempt does not count unless ``counted``.

        With ``delivered`` false, the message has not reached the consumer: it is no redelivery when it is
        claimed again. Raises OutOfRange if ``retry_at`` is no number.
        """
        _check_time(retry_at)
        with self.lock:
            move = Entry.fail if counted else partial(Entry.release, delivered=delivered)
            return self._settle(entry, consumer, claim_number, partial(move, due_at=retry_at))

    def decline(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None) -> Fate:
        """Back to its place for the others; this consumer is not offered it again."""
        with self.lock:
            if entry.owner is consumer and consumer.queue is self:
                # Before it has its credit again: it would be woken for this very entry.
                self._dispatch.give_position(consumer)
            return self._settle(entry, consumer, claim_number, Entry.decline)

    def fail(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None = None,
        *,
        retry_at: float | None = None,
        now: float | None = None,
    ) -> Fate:
        """Back to its place, at once, at ``retry_at``, or when the queue's backoff says; the attempt counts.

        Dead, as ``reject``, if it has failed as often as the queue allows. Raises OutOfRange if
        ``retry_at`` is no number.
        """
        _check_time(retry_at)
        with self.lock:
            self._now = self._now if now is None else now
            return self._fail(entry, consumer, claim_number, retry_at, None if retry_at is None else 0.0)

    def _fail(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None = None,
        retry_at: float | None = None,
        delay_seconds: float | None = 0.0,
    ) -> Fate:
        decision = verdict(Ending.FAILED, entry.attempts, self.rules, delay_seconds)
        if decision.verdict is Verdict.DEAD:
            return self._bury(entry, consumer, claim_number, "max attempts")
        if decision.delay_seconds > 0:
            retry_at = self._now + decision.delay_seconds
        return self._settle(entry, consumer, claim_number, partial(Entry.fail, due_at=retry_at))

    def reject(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None = None,
        *,
        now: float | None = None,
        counted: bool = True,
        reason: str = "rejected",
        stays: bool = False,
    ) -> Fate:
        """Dead: sent to the dead-letter queue, or kept aside until it is redriven or removed.

        With ``stays`` it is kept aside in any case, until it is sent on with others.
        """
        with self.lock:
            self._now = self._now if now is None else now
            return self._bury(entry, consumer, claim_number, reason, counted=counted, stays=stays)

    def lapse(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None, *, now: float) -> Fate:
        """Expired, as the consumer has found: sent to the expiry queue, or gone. The attempt does not count."""
        with self.lock:
            self._now = now
            if not self._holds(entry, consumer, claim_number):
                return VOID
            entry.attempts -= 1
            cause = Cause.REPLACED if entry.replaced else Cause.EXPIRED
            if not entry.replaced:
                self._expired(entry)
            return self._settle(entry, consumer, claim_number, Entry.accept, cause)

    def _holds(self, entry: Entry, consumer: "Consumer", claim_number: int | None) -> bool:
        held = consumer.queue is self and entry.owner is consumer and entry in consumer.unsettled
        return held and (claim_number is None or consumer.unsettled[entry] == claim_number)

    def begin_settle(self, entry: Entry, consumer: "Consumer") -> bool:
        """From now on the entry cannot be taken back; False if it is not the consumer's any more."""
        with self.lock:
            if consumer.queue is not self or entry not in consumer.unsettled or not entry.lock(consumer):
                return False
            self._calendar.expiring.remove(entry)  # it may expire when it is given back
            return True

    def _settle(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None,
        move: "Callable[[Entry, Consumer], bool]",
        cause: Cause = Cause.ACCEPTED,
    ) -> Fate:
        if consumer.queue is not self or not consumer.settle(entry, claim_number):
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
        if not self._gate.is_open:  # it may have waited for this
            self._look_at_gate()
        return fate

    def _returned(self, entry: Entry) -> Fate:
        if self.deleted and entry.state is not GONE and entry.state is not DEAD:
            return self._expel(entry)
        if self._is_deserted and (entry.state is READY or entry.state is SCHEDULED):
            self._contents.take_out(entry, Cause.KILLED)
        elif entry.state is READY and not self._plain:
            self._room.look_again(None)
        return DISCARDED if entry.state is GONE else RETURNED

    def _expel(self, entry: Entry) -> Fate:
        """Send an entry of a queue that is deleted to where its dead letters go."""
        fate = self._afterlife.dead(entry, self._now, QUEUE_DELETED)
        self._contents.take_back(entry, Cause.KILLED)
        return DISCARDED if fate.kept else fate

    def _bury(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None,
        cause: str,
        *,
        counted: bool = True,
        stays: bool = False,
    ) -> Fate:
        if not self._settle(entry, consumer, claim_number, Entry.reject):
            return VOID
        entry.attempts -= not counted
        entry.suspect = entry.replaced = False
        if stays:
            entry.cause, entry.died_at = cause, self._now
            return Fate.DEAD
        fate = self._afterlife.dead(entry, self._now, cause)
        if fate.kept and not self.deleted:
            return fate
        self._contents.take_out(entry, Cause.KILLED)
        return DISCARDED if fate.kept else fate
