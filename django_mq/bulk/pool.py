"""The pool of a handler of many: one thread, which gathers messages and gives them to the handler.

What has not begun waits in the prefetch, in order. From there it can go back to the queue, and a more urgent one
goes before it. The messages of a call that failed wait here, in halves.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from django_mq.bulk.call import BulkCall, BulkOutcome, released
from django_mq.delivery.consumer.pool import Pool
from django_mq.engine.decisions.bulk import behind, wait_seconds
from django_mq.engine.decisions.verdict import DECLINE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.pool import MakePool, NextAttempt
    from django_mq.engine.decisions.interruption import Interruption
    from django_mq.stores.records import Settlement


def pool_for(handler: Handler) -> MakePool:
    """Return what makes the pool of a handler of many; its slots are the messages of a bulk."""
    return partial(BulkPool, handler.bulk_seconds)


class BulkPool:
    """Runs one handler of many: one call at a time, with as many messages as there are slots at most."""

    gathers = True

    def __init__(
        self,
        bulk_seconds: float,
        slots: int,
        /,
        *,
        next_attempt: NextAttempt,
        on_done: Callable[[Delivery, Settlement], None],
        on_idle: Callable[[], None],
    ) -> None:
        self.slots = slots
        self._bulk_seconds = bulk_seconds
        self._prefetched = next_attempt
        self._on_done = on_done
        self._lock = threading.Lock()
        #: How many messages have begun and are not settled, and the calls to make next with some of them.
        self.running = 0
        self._calls: list[BulkCall] = []
        # When the first message that waits was noticed, on the monotonic clock; None if none is worth a look.
        self._since: float | None = None
        self._stopping = False
        self._threads = Pool[BulkOutcome](
            1,
            next_attempt=self._next_call,
            on_done=self._on_call_done,
            on_idle=on_idle,
            seconds_until_look=self._seconds_until_look,
        )

    @property
    def free(self) -> int:
        """How many messages could begin now."""
        return 0 if self.running else self.slots

    @property
    def abandoned(self) -> int:
        """How many calls were given up and still run."""
        return self._threads.abandoned

    @property
    def exhausted(self) -> bool:
        """Whether too many were given up for the pool to go on."""
        return self._threads.exhausted

    def wake(self, messages: int | None = None, *, patient: bool = False) -> None:
        """Look whether a call can begin."""
        with self._lock:
            waits = self._since is not None and self._seconds_to_wait() > 0
            if self._since is None and self._prefetched.line().number:
                self._since = time.monotonic()
        # A thread that waits for more messages knows for how long.
        if messages is None or not waits:
            self._threads.wake(patient=patient)

    def abandon_overdue(self) -> list[tuple[Delivery, Settlement]]:
        """Give up a call that exceeds its time limit."""
        for call, outcome in self._threads.abandon_overdue():
            self._on_call_done(call, outcome)
            self._threads.wake()
        return []

    def attempts(self) -> list[tuple[Delivery, float]]:
        """Return the attempts of the running call, each with its begin on the monotonic clock."""
        return [(each, begun_at) for call, begun_at in self._threads.attempts() for each in call.attempts]

    def interrupt(self, attempt: Delivery, reason: Interruption) -> None:
        """Ask the handler, by one of its messages, to end."""
        attempt.message.end_request.ask(reason)

    def abandon(self, attempt: Delivery) -> bool:
        """Give up the call with this message. The caller settles the message, and the others are given again."""
        for call, _ in self._threads.attempts():
            if attempt in call.attempts and self._threads.abandon(call):
                self._on_call_done(call, call.abandon(attempt))
                with self._lock:
                    self.running -= 1
                self._threads.wake()
                return True
        return False

    def stop(self) -> None:
        """Begin no other call, and give back what waits for one."""
        with self._lock:
            self._stopping = True
        self._threads.stop()
        self._give_back_calls()

    def disown(self) -> None:
        """Give up the running call: its outcome is ignored."""
        self._threads.disown()

    # In the thread of the pool.

    def _next_call(self) -> BulkCall | None:
        with self._lock:
            if self._calls:
                session = self._calls[0].attempts[0].origin.session
                if session.may_begin:
                    return self._calls.pop(0)
                if not (session.lost or session.retired):
                    return None  # the heartbeat confirms the lease, and then wakes the pool
            elif self.running:
                return None
            else:
                return self._gathered()
        self._give_back_calls()
        return None

    def _gathered(self) -> BulkCall | None:
        """Return a call with the messages that wait, if there are enough, or they have waited long enough."""
        if not self._prefetched.line().number:
            self._since = None
            return None
        self._since = time.monotonic() if self._since is None else self._since
        if self._seconds_to_wait() > 0:
            return None
        attempts = self._prefetched.together(self.slots)
        if not attempts or not self._prefetched.line().number:
            self._since = None
        self.running += len(attempts)
        return BulkCall(attempts) if attempts else None

    def _seconds_to_wait(self) -> float:
        waited_seconds = 0.0 if self._since is None else time.monotonic() - self._since
        return wait_seconds(self._prefetched.line(), self.slots, waited_seconds, self._bulk_seconds)

    def _seconds_until_look(self) -> float | None:
        with self._lock:
            return None if self.running or self._since is None else self._seconds_to_wait()

    def _on_call_done(self, _: BulkCall, outcome: BulkOutcome) -> None:
        with self._lock:
            self._calls = [*outcome.again, *self._calls]
        if outcome.settled and outcome.is_accepted:
            self._accept(outcome)
        else:
            for attempt, settlement in outcome.settled:
                self._settle(attempt, settlement)
                if settlement.verdict in (RELEASE, DECLINE):
                    self._give_back_behind(attempt)
        if self._stopping:
            self._give_back_calls()

    def _accept(self, outcome: BulkOutcome) -> None:
        attempts, settlements = zip(*outcome.settled, strict=True)
        self._prefetched.accept(attempts, settlements)
        with self._lock:
            self.running -= len(attempts)

    def _settle(self, attempt: Delivery, settlement: Settlement) -> None:
        self._on_done(attempt, settlement)
        with self._lock:
            self.running -= 1

    def _give_back_behind(self, attempt: Delivery) -> None:
        """Give back what is behind a message of its group that goes back to the queue."""
        with self._lock:
            parts = [call.attempts for call in self._calls]
            back = set(behind(attempt.claimed.group_key, parts, lambda each: each.claimed.group_key))
            if not back:
                return
            self._calls = [rest for call in self._calls if (rest := call.without(back)).attempts]
        for each in back:
            self._settle(each, released(each))

    def _give_back_calls(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            for attempt in call.attempts:
                self._settle(attempt, released(attempt))
