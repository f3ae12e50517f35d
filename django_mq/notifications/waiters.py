"""Wakes the threads and coroutines of this process that wait for results: they share one listener.

A hint names a bucket of tasks and messages, not one of them: a process that waits for many results one after the
other listens to the same few topics. A hint is only a hint. What waits looks at the database after each, and now
and then without one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from django_mq.engine.decisions.chords import seconds_to_next_look
from django_mq.notifications.base import ANY, Wake
from django_mq.notifications.registry import notifier
from django_mq.process import at_fork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.notifications.base import Listener

logger = logging.getLogger("django_mq.notifications")

#: The name of the thread.
THREAD: Final = "django_mq-results"
#: How many buckets there are.
BUCKETS: Final = 32
#: The thread of the listener goes on for so long after the last wait.
LINGER_SECONDS: Final = 30.0
#: How often a program looks although hints arrive.
BEAT_SECONDS: Final = 2.0


def topic_of(id_: str) -> str:
    """Return the topic of the bucket of a task or a message."""
    return f"r:{zlib.crc32(id_.encode()) % BUCKETS}"


Waiting = TypeVar("Waiting", bound="WaitingThread")


class WaitingThread:
    """Sleeps until a hint comes, or it is time to look anyway."""

    def __init__(self, waiters: Waiters, topics: frozenset[str]) -> None:
        self.topics = topics
        self._waiters = waiters
        self._event = threading.Event()
        self._began = time.monotonic()

    def wake(self) -> None:
        """End the sleep; any thread may call this."""
        self._event.set()

    def wait(self, interval_seconds: float, left_seconds: float | None) -> bool:
        """Sleep, no longer than what is left; without hints, no longer than the interval. Return if one came."""
        is_hint = self._event.wait(self._seconds(interval_seconds, left_seconds))
        self._event.clear()
        return is_hint

    def _seconds(self, interval_seconds: float, left_seconds: float | None) -> float:
        seconds = BEAT_SECONDS
        if not self._waiters.hears:
            seconds = seconds_to_next_look(time.monotonic() - self._began, interval_seconds)
        return seconds if left_seconds is None else max(0.0, min(seconds, left_seconds))


class WaitingTask(WaitingThread):
    """The same for a coroutine, which holds no thread."""

    def __init__(self, waiters: Waiters, topics: frozenset[str]) -> None:
        super().__init__(waiters, topics)
        self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._woken.set)

    async def await_(self, interval_seconds: float, left_seconds: float | None) -> None:
        """Do what ``wait`` does."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), self._seconds(interval_seconds, left_seconds))
        self._woken.clear()


class WaitersWake(Wake):
    """Wakes what waits for a topic in the thread that hears the hint: the thread of the waiters need not run."""

    def __init__(self, waiters: Waiters) -> None:
        super().__init__()
        self._waiters = waiters

    def set(self, topic: str | None = None) -> None:
        if topic is None or topic == ANY:
            super().set(topic)
        else:
            self._waiters.wake(topic)


class Waiters:
    """What waits for results in one process."""

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
    def waiting_for(self, ids: Iterable[str]) -> Iterator[WaitingThread]:
        """Listen for the results of these tasks or messages, in a thread."""
        with self._listening(WaitingThread(self, frozenset(map(topic_of, ids)))) as pause:
            yield pause

    @contextmanager
    def awaiting(self, ids: Iterable[str]) -> Iterator[WaitingTask]:
        """Listen for the results of these tasks or messages, in a coroutine."""
        with self._listening(WaitingTask(self, frozenset(map(topic_of, ids)))) as pause:
            yield pause

    @contextmanager
    def _listening(self, pause: Waiting) -> Iterator[Waiting]:
        with self._lock:
            self._pauses.add(pause)
            is_new = not pause.topics <= self._topics
            self._topics.update(pause.topics)
            if self._thread is None:
                self._wake = WaitersWake(self)
                self._thread = threading.Thread(target=self._run, args=(self._wake,), name=THREAD, daemon=True)
                self._thread.start()
            elif is_new and self._wake is not None:
                self._wake.set(None)
        try:
            yield pause
        finally:
            with self._lock:
                self._pauses.discard(pause)

    def wake(self, topic: str | None) -> None:
        """Wake what waits for this topic, None for any; any thread may call this, and a signal's handler."""
        for pause in tuple(self._pauses):
            if topic is None or topic in pause.topics:
                pause.wake()

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
                if listener.connected:
                    wake.set()  # a hint may have come before; a listener that connects later says so itself
            wake.wait(LINGER_SECONDS)
            topics = wake.take_topics()
            if ANY in topics:
                self.wake(None)


#: What waits in this process.
WAITERS: Final = Waiters()
