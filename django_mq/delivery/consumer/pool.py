"""Threads that pull attempts and run them; a thread that runs nothing is a free slot.

Threads take their next message from the prefetch by themselves: a busy worker needs no
hand-over between threads, and a message's turn is decided at the moment a slot is free.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.attempt import Attempt
    from django_mq.stores.records import Settlement

#: Whoever is patient waits at most so long, in seconds, until a thread that was idle has taken a message.
BEGIN_SECONDS = 0.005
#: A pool is exhausted by as many abandoned threads as it has slots, and never by fewer than this.
LEAST_ABANDONED = 4


class Pool:
    """A fixed number of slots."""

    def __init__(
        self,
        slots: int,
        *,
        next_attempt: Callable[[], Attempt | None],
        on_done: Callable[[Attempt, Settlement], None],
        on_idle: Callable[[], None],
    ) -> None:
        self.slots = slots
        self._next_attempt = next_attempt
        self._on_done = on_done
        self._on_idle = on_idle
        # By thread, with the time on the monotonic clock when the time limit is over.
        self._running: dict[int, tuple[Attempt, float | None]] = {}
        # Threads whose attempt was taken away and that still run it: each keeps its connections.
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
        """How many attempts have begun and not come to an end."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many attempts could begin now."""
        return self.slots - self.running

    @property
    def abandoned(self) -> int:
        """How many threads still run an attempt that was given up; Python cannot end them."""
        return len(self._abandoned)

    @property
    def exhausted(self) -> bool:
        """Whether so many threads are abandoned that no further one is replaced."""
        return self.abandoned >= max(self.slots, LEAST_ABANDONED)

    def wake(self, messages: int | None = None, *, patient: bool = False) -> None:
        """Wake an idle thread for each of so many messages, or all; if ``patient``, let one of them begin first.

        Who goes on at once keeps the interpreter to itself while the message waits for it.
        """
        with self._changed:
            self._news += 1
            self._begun.clear()
            idle = self._parked
            self._changed.notify(idle if messages is None else messages)
        if patient and idle:
            self._begun.wait(BEGIN_SECONDS)

    def abandon_overdue(self) -> list[tuple[Attempt, Settlement]]:
        """Give up the attempts whose time limit is over; until ``exhausted`` a new thread replaces each one's."""
        now = time.monotonic()
        given_up = []
        for thread_id, (attempt, deadline) in list(self._running.items()):
            if deadline is not None and now >= deadline and self._abandon(thread_id):
                given_up.append((attempt, attempt.expire()))
        return given_up

    def disown(self) -> None:
        """Forget what is running: it belongs to others now, and its outcome will be ignored."""
        for thread_id in list(self._running):
            self._abandon(thread_id)

    def _abandon(self, thread_id: int) -> bool:
        """Take a thread's attempt away and replace the thread; False if the attempt has just ended."""
        self._abandoned.add(thread_id)  # first: the thread takes itself out when it notices
        if not self._take_away(thread_id):
            self._abandoned.discard(thread_id)
            return False
        if not self.exhausted:
            self._start_thread()
        return True

    def _take_away(self, thread_id: int) -> bool:
        # Whoever removes the attempt settles it: the watch over time limits, or its thread.
        return self._running.pop(thread_id, None) is not None

    def stop(self) -> None:
        """Let no thread begin another attempt."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="django_mq-handler", daemon=True).start()

    def _work(self) -> None:
        try:
            self._take_turns()
        finally:
            connections.close_all()  # this thread's own, which nobody else could ever close

    def _take_turns(self) -> None:
        while not self._stopping:
            # Read before looking: messages offered after the look must not find this thread asleep.
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
            while self._news == news and not self._stopping:
                self._changed.wait()
            self._parked -= 1

    def _run(self, attempt: Attempt) -> bool:
        """Run an attempt; False if it was given up meanwhile, and another thread has taken this one's place."""
        me = threading.get_ident()
        limit = attempt.handler.time_limit_seconds
        self._running[me] = attempt, None if limit is None else time.monotonic() + limit
        settlement = attempt.run()
        if not self._take_away(me):
            self._abandoned.discard(me)
            return False
        self._on_done(attempt, settlement)
        return True
