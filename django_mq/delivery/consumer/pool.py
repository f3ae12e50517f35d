"""What a worker runs its handlers with: a pool, which pulls attempts from the prefetch and runs them.

The usual pool has threads. An idle thread is a free slot. A thread takes its next message from the prefetch by
itself: the most urgent one at the moment when it is free.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from django.db import connections

from django_mq.delivery.consumer.unit_of_work import adopt_thread, begin_unit, end_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.engine.decisions.bulk import BulkLine
    from django_mq.engine.decisions.interruption import Interruption
    from django_mq.stores.records import Settlement

#: A patient caller of ``wake`` waits at most so long, in seconds, until an idle thread has taken a message.
BEGIN_SECONDS = 0.005
#: A pool is exhausted by as many abandoned threads as it has slots, and never by fewer than this.
LEAST_ABANDONED = 4


class HandlerPool(Protocol):
    """What a worker knows of its pool. The worker's loop, and the threads of its pool, call it."""

    #: How many attempts run at a time.
    slots: int
    #: Whether messages may wait for others although they could begin.
    gathers: bool

    @property
    def running(self) -> int:
        """How many attempts run."""

    @property
    def free(self) -> int:
        """How many attempts could begin now."""

    @property
    def abandoned(self) -> int:
        """How many attempts were given up and still run."""

    @property
    def exhausted(self) -> bool:
        """Whether too many were given up for the pool to go on."""

    def wake(self, messages: int | None = None, *, patient: bool = False) -> None:
        """Begin as many attempts as there are ``messages``, or all; if ``patient``, wait until one begins."""

    def abandon_overdue(self) -> list[tuple[Delivery, Settlement]]:
        """Give up the attempts that exceed their time limit; return those that the caller is to settle."""

    def attempts(self) -> list[tuple[Delivery, float]]:
        """Return the attempts that run, each with its begin on the monotonic clock. Any thread may call this."""

    def interrupt(self, attempt: Delivery, reason: Interruption) -> None:
        """Ask an attempt to end, as far as it can be asked. Any thread may call this, also again."""

    def abandon(self, attempt: Delivery) -> bool:
        """Give up an attempt, which the caller is to settle; False if it has just ended."""

    def stop(self) -> None:
        """Begin no other attempt."""

    def disown(self) -> None:
        """Give up the running attempts: their outcomes are ignored."""


class NextAttempt(Protocol):
    """How a pool takes what its worker has prefetched. Any thread may call it."""

    def __call__(self) -> Delivery | None:
        """Return the most urgent attempt; None if none may begin."""

    def line(self) -> BulkLine:
        """Return what waits for the only handler."""

    def together(self, most: int) -> list[Delivery]:
        """Return the first attempts of the only handler, which are one call; none if they may not begin."""

    def accept(self, attempts: Sequence[Delivery], settlements: Sequence[Settlement]) -> None:
        """Settle attempts of one call that were all accepted, as ``on_done`` does each."""


class MakePool(Protocol):
    """Makes, and starts, the pool of a worker."""

    def __call__(
        self,
        slots: int,
        /,
        *,
        next_attempt: NextAttempt,
        on_done: Callable[[Delivery, Settlement], None],
        on_idle: Callable[[], None],
    ) -> HandlerPool:
        """Make a pool.

        It takes the most urgent attempt by ``next_attempt``, and calls ``on_idle`` where that returns None.
        ``on_done`` settles an attempt that has ended. Any thread may call these.
        """


Outcome = TypeVar("Outcome")
Outcome_co = TypeVar("Outcome_co", covariant=True)


class Call(Protocol[Outcome_co]):
    """A call of a handler: an attempt, or several together."""

    @property
    def handler(self) -> Handler: ...

    def run(self) -> Outcome_co:
        """Call the handler and return the outcome. Never raises."""

    def expire(self) -> Outcome_co:
        """Return the outcome of a call that exceeds its time limit."""


class Pool(Generic[Outcome]):
    """A fixed number of slots, each a thread."""

    gathers = False

    def __init__(
        self,
        slots: int,
        *,
        next_attempt: Callable[[], Call[Outcome] | None],
        on_done: Callable[[Any, Outcome], None],
        on_idle: Callable[[], None],
        seconds_until_look: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Start the threads; an idle one looks again in ``seconds_until_look``, None for when it is woken."""
        self.slots = slots
        self._next_attempt = next_attempt
        self._on_done = on_done
        self._on_idle = on_idle
        self._seconds_until_look = seconds_until_look
        # By thread, with its begin and the end of its time limit on the monotonic clock.
        self._running: dict[int, tuple[Call[Outcome], float, float | None]] = {}
        # Threads that still run an attempt that was taken away.
        self._abandoned: set[int] = set()
        self._news = 0
        self._changed = threading.Condition()
        self._parked = 0
        self._begun = threading.Event()
        self._stopping = False
        for _ in range(slots):
            self._start_thread()

    @property
    def running(self) -> int:
        """How many attempts run."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many attempts could begin now."""
        return self.slots - self.running

    @property
    def abandoned(self) -> int:
        """How many threads still run an attempt that was given up. Python cannot end them."""
        return len(self._abandoned)

    @property
    def exhausted(self) -> bool:
        """Whether too many threads are abandoned: no other one is replaced."""
        return self.abandoned >= max(self.slots, LEAST_ABANDONED)

    def wake(self, messages: int | None = None, *, patient: bool = False) -> None:
        """Wake an idle thread for each of so many messages, or all; if ``patient``, wait until one of them begins.

        A caller that does not wait keeps the interpreter's lock from them.
        """
        with self._changed:
            self._news += 1
            self._begun.clear()
            idle = self._parked
            self._changed.notify(idle if messages is None else messages)
        if patient and idle:
            self._begun.wait(BEGIN_SECONDS)

    def abandon_overdue(self) -> list[tuple[Any, Outcome]]:
        """Give up and return the attempts that exceed their time limit; new threads replace theirs."""
        now = time.monotonic()
        given_up = []
        for thread_id, (attempt, _, deadline) in list(self._running.items()):
            if deadline is not None and now >= deadline and self._abandon(thread_id):
                given_up.append((attempt, attempt.expire()))
        return given_up

    def attempts(self) -> list[tuple[Any, float]]:
        """Return the attempts that run, each with when it began."""
        return [(attempt, begun_at) for attempt, begun_at, _ in list(self._running.values())]

    def interrupt(self, attempt: Delivery, reason: Interruption) -> None:
        """Ask an attempt to end: nothing can end its thread."""
        attempt.message.end_request.ask(reason)

    def abandon(self, attempt: Any) -> bool:
        """Give up an attempt; a new thread replaces its own."""
        found = [thread_id for thread_id, (each, *_) in list(self._running.items()) if each is attempt]
        return any(map(self._abandon, found))

    def disown(self) -> None:
        """Forget the running attempts: their outcomes are ignored."""
        for thread_id in list(self._running):
            self._abandon(thread_id)

    def _abandon(self, thread_id: int) -> bool:
        """Take a thread's attempt away and replace the thread; False if the attempt has just ended."""
        self._abandoned.add(thread_id)  # first: the thread removes itself when it notices
        if not self._take_away(thread_id):
            self._abandoned.discard(thread_id)
            return False
        if not self.exhausted:
            self._start_thread()
        return True

    def _take_away(self, thread_id: int) -> bool:
        # The caller that removes the attempt settles it.
        return self._running.pop(thread_id, None) is not None

    def stop(self) -> None:
        """Let no thread begin another attempt."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="django_mq-handler", daemon=True).start()

    def _work(self) -> None:
        adopt_thread()
        try:
            self._take_turns()
        finally:
            connections.close_all()  # this thread's own

    def _take_turns(self) -> None:
        while not self._stopping:
            # Before the look: messages offered after it must not find this thread asleep.
            news = self._news
            attempt = self._next_attempt()
            if not self._begun.is_set():
                self._begun.set()
            if attempt is None:
                self._on_idle()
                self._park(news)
            elif not self._run(attempt):
                return

    def _park(self, news: int) -> None:
        with self._changed:
            self._parked += 1
            seconds = self._seconds_until_look()
            while self._news == news and not self._stopping and self._changed.wait(seconds):
                pass
            self._parked -= 1

    def _run(self, attempt: Call[Outcome]) -> bool:
        """Run an attempt; False if it was given up meanwhile, and another thread replaces this one."""
        me = threading.get_ident()
        limit = attempt.handler.time_limit_seconds
        begun_at = time.monotonic()
        self._running[me] = attempt, begun_at, None if limit is None else begun_at + limit
        begin_unit()
        try:
            outcome = attempt.run()
            if not self._take_away(me):
                self._abandoned.discard(me)
                return False
            self._on_done(attempt, outcome)
        finally:
            end_unit()
        return True
