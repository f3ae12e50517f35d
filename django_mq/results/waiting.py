"""Wakes the threads of this process that wait for results: they share one listener, in a thread of its own.

A hint names a bucket of tasks, not a task: a process that waits for many results one after the other listens to
the same few topics. A hint is only a hint. A thread that waits looks at the database after each, and now and then
without one.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.chords import seconds_to_next_look
from django_mq.notifications.base import ANY, Wake
from django_mq.notifications.registry import notifier
from django_mq.process import at_fork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.notifications.base import Listener
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.results")

#: How many buckets there are.
BUCKETS: Final = 32
#: The thread listens for so long after the last wait.
LINGER_SECONDS: Final = 30.0
#: How often a thread looks although hints arrive.
BEAT_SECONDS: Final = 2.0


def topic_of(task_id: str) -> str:
    """Return the topic of the bucket of a task."""
    return f"r:{zlib.crc32(task_id.encode()) % BUCKETS}"


def announce(task_id: str, store: Store) -> None:
    """Wake the threads that wait for the result of this task, after the commit of the store's transaction."""
    topic = topic_of(task_id)
    store.database.after_commit(lambda: notifier().send([topic], over=store))


class WaitingThread:
    """Sleeps until a hint comes, or it is time to look anyway."""

    def __init__(self, topics: frozenset[str], event: threading.Event) -> None:
        self.topics = topics
        self.event = event
        self._began = time.monotonic()

    def wait(self, interval_seconds: float, left_seconds: float | None) -> None:
        """Sleep, no longer than what is left; without hints, no longer than the interval."""
        waited = time.monotonic() - self._began
        hears = WAITERS.hears
        seconds = BEAT_SECONDS if hears else seconds_to_next_look(waited, interval_seconds)
        self.event.wait(seconds if left_seconds is None else max(0.0, min(seconds, left_seconds)))
        self.event.clear()


class Waiters:
    """The threads of one process that wait for results."""

    def __init__(self) -> None:
        self._begin()
        # A forked child has no thread, and must not wait for a lock of its parent.
        at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pauses: set[WaitingThread] = set()
        self._topics: set[str] = set()
        self._wake: Wake | None = None
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def hears(self) -> bool:
        """Whether hints of other processes arrive now."""
        listener = self._listener
        return listener is not None and notifier().reaches_others and listener.connected

    @contextmanager
    def waiting_for(self, task_ids: Iterable[str]) -> Iterator[WaitingThread]:
        """Listen for the results of these tasks."""
        pause = WaitingThread(frozenset(map(topic_of, task_ids)), threading.Event())
        with self._lock:
            self._pauses.add(pause)
            is_new = not pause.topics <= self._topics
            self._topics.update(pause.topics)
            if self._thread is None:
                self._wake = Wake()
                self._thread = threading.Thread(
                    target=self._run, args=(self._wake,), name="django_mq-results", daemon=True
                )
                self._thread.start()
            elif is_new and self._wake is not None:
                self._wake.set(None)
        try:
            yield pause
        finally:
            with self._lock:
                self._pauses.discard(pause)

    def close(self) -> None:
        """End the thread, and its connection. The next wait begins another one."""
        with self._lock:
            thread, self._thread, wake, self._wake = self._thread, None, self._wake, None
            self._topics.clear()
            if wake is not None:
                wake.set(None)
        if thread is not None:
            thread.join()

    def _run(self, wake: Wake) -> None:
        listener: Listener | None = None
        try:
            listener = notifier().listen(wake)
            self._listener = listener
            self._listen(wake, listener)
        except Exception:
            logger.exception("Hints of results are not heard; programs that wait look regularly instead.")
        finally:
            with self._lock:
                if self._wake is wake:
                    self._thread = self._wake = None
                    self._topics.clear()
                if self._listener is listener:
                    self._listener = None
            if listener is not None:
                with suppress(Exception):
                    listener.close()
            wake.close()

    def _listen(self, wake: Wake, listener: Listener) -> None:
        subscribed: frozenset[str] = frozenset()
        quiet_since = time.monotonic()
        while True:
            with self._lock:
                if self._wake is not wake:
                    return
                if self._pauses:
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > LINGER_SECONDS:
                    return
                wanted = frozenset(self._topics)
            if wanted != subscribed:
                listener.subscribe(wanted)
                subscribed = wanted
            wake.wait(LINGER_SECONDS)
            topics = wake.take_topics()
            with self._lock:
                for pause in self._pauses:
                    if ANY in topics or pause.topics & topics:
                        pause.event.set()


#: The threads of this process that wait.
WAITERS: Final = Waiters()
