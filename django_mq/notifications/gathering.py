"""Gather hints that would find no idle session, and send them as one after a moment.

While every session of a queue is at work, a publisher's hints find none. If two in a row find none, those that
follow within a moment are counted, and sent with the first hint after the moment, or by a thread if none follows.
A message that arrives after a session's last look waits two moments at most.

Only a publisher's plain news waits. News of due messages, of messages that came back, and what a session hands
on is sent at once.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.decisions.backoff import Backoff
from django_mq.notifications.base import News
from django_mq.process import at_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

#: After two hints in a row that found no idle session, hints are gathered for so long, in seconds.
MOMENT_SECONDS = 0.005
#: Hints are in a row if the next one follows so soon after the moment of the last one, in seconds. A session that
#: works on a few messages a second is idle again by then, and must not wait for a moment.
ROW_SECONDS = 0.01
#: After so long, in seconds, the thread has failed: some servers let no threads run.
STALLED_SECONDS = 1.0
#: The thread ends after so many moments without hints.
QUIET_MOMENTS = 20
#: So many queues are remembered.
KNOWN = 256


class Gathering:
    """The gathered hints of one process. Any thread may use it; a forked child begins with none."""

    def __init__(
        self,
        send: Callable[[Mapping[str, News]], None],
        *,
        grace_seconds: float = 0.0,
        longest_moment_seconds: float = MOMENT_SECONDS,
        on_quiet: Callable[[], None] = lambda: None,
    ) -> None:
        """The thread leaves the publisher a grace to send what is kept, and calls ``on_quiet`` before it ends.

        While hints find no idle session again and again, moments double up to the longest.
        """
        self._send = send
        self._lengths = Backoff(MOMENT_SECONDS, multiplier=2.0, cap_seconds=longest_moment_seconds)
        self._grace_seconds = grace_seconds
        self._on_quiet = on_quiet
        self._forget_parent()
        at_fork(after_in_child=self._forget_parent)
        atexit.register(self.flush)

    def _forget_parent(self) -> None:
        # Until when a queue's news would find no idle session, as far as is known.
        self._none_idle_until: dict[str, float] = {}
        # How many moments have followed each other: none after a first hint.
        self._moments: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._since = self._flush_at = 0.0
        self._thread: threading.Thread | None = None
        self._stalled = False
        # A publisher never waits for it: this thread may hold it, interrupted by a signal's handler.
        self._lock = threading.Lock()

    def answered(self, queues: Collection[str], asked_at: float, notified: object) -> None:
        """Take the answer to a hint of these queues, sent at ``asked_at``: how many sessions were notified."""
        if len(self._none_idle_until) >= KNOWN:
            self._none_idle_until.clear()
            self._moments.clear()
        for queue in queues:
            until = self._none_idle_until.get(queue, 0.0)
            if notified != 0:
                self._none_idle_until[queue] = 0.0
                continue
            in_row = until and asked_at < until + ROW_SECONDS
            self._moments[queue] = moments = self._moments[queue] + 1 if in_row else 0
            self._none_idle_until[queue] = asked_at + (self._lengths.delay(moments) if moments else 0.0)

    def keep(self, news: Mapping[str, News]) -> bool:
        """Keep the news for a moment if no idle session would hear it now; return whether it is kept."""
        now = time.monotonic()
        for queue, item in news.items():
            if now >= self._none_idle_until.get(queue, 0.0) or item.due_seconds is not None or item.back:
                return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._keep(news, now)
        finally:
            self._lock.release()

    def _keep(self, news: Mapping[str, News], now: float) -> bool:
        if not self._waiting:
            self._since = now
        self._stalled = self._stalled or now - self._since > STALLED_SECONDS
        if self._stalled or not self._is_seen_to():
            return False
        for queue, item in news.items():
            self._waiting[queue] += item.messages
            until = self._none_idle_until.get(queue, 0.0) if self._grace_seconds else self._since + MOMENT_SECONDS
            self._flush_at = max(self._flush_at, until + self._grace_seconds)
        return True

    def _is_seen_to(self) -> bool:
        """Return whether the thread runs that sends hints that no other one follows."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="django_mq-gathered", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False  # no more threads, or the interpreter is on its way out
            self._thread = thread
        return True

    def with_kept(self, news: Mapping[str, News]) -> Mapping[str, News]:
        """Return the news together with those kept for the same queues, and keep these no more."""
        if not self._waiting or not self._lock.acquire(blocking=False):
            return news
        try:
            kept = {queue: self._waiting.pop(queue, 0) for queue in news}
        finally:
            self._lock.release()
        return {queue: replace(item, messages=item.messages + kept[queue]) for queue, item in news.items()}

    @property
    def runs_here(self) -> bool:
        """Whether this is the thread that sends what nothing follows."""
        return threading.current_thread() is self._thread

    def flush(self) -> None:
        """Send the kept news."""
        with self._lock:
            kept, self._waiting = self._waiting, Counter()
        if kept:
            self._send({queue: News(messages=count) for queue, count in kept.items()})

    def _run(self) -> None:
        quiet = 0
        while True:
            left = self._flush_at - time.monotonic() if self._waiting else 0.0
            time.sleep(max(MOMENT_SECONDS, left))  # each turn takes the interpreter's lock from the publishers
            quiet = 0 if self._waiting else quiet + 1
            if self._waiting and time.monotonic() >= self._flush_at:
                self.flush()
            if quiet >= QUIET_MOMENTS:
                self._on_quiet()  # before the next thread may begin
                if self._ends():
                    return

    def _ends(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is None


#: The pauses of a breaker. A server that hangs costs one time limit in each pause.
PAUSES = Backoff(base_seconds=0.6, multiplier=2.0, cap_seconds=10.0)


class Breaker:
    """After a failure, keeps the threads of a process from a server for a while.

    After the pause one caller may try. Each failure in a row doubles the pause, up to a cap, with jitter.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0
        self._begin()
        at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # No caller waits for it. New in a forked child: a thread of the parent may have held it.
        self._trying = threading.Lock()

    def lets_through(self, trial_seconds: float) -> bool:
        """Return whether to try now: after a pause, one caller in ``trial_seconds`` may."""
        if not self._failures:
            return True
        if not self._trying.acquire(blocking=False):
            return False
        try:
            now = time.monotonic()
            if now < self._open_until:
                return False
            self._open_until = now + trial_seconds
            return True
        finally:
            self._trying.release()

    def failed(self) -> float:
        """Open, and return for how many seconds."""
        self._failures += 1
        pause = PAUSES.spread(self._failures)
        self._open_until = time.monotonic() + pause
        return pause

    def succeeded(self) -> None:
        """Close."""
        self._failures = 0
