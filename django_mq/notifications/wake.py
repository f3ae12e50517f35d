"""A wake-up that any thread may set and an event loop can watch as a file descriptor."""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set

#: Stands for every topic: something happened, look at everything.
ANY = "*"
#: A look has found something, or may: no hint has come for it.
LOOK = "look"


class Wake:
    """Set from any thread, fork-safe to abandon; many sets before a clear count as one."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._pid = os.getpid()
        self._closed = False
        self._topics: set[str] = set()
        # A descriptor that is closed may be somebody else's a moment later: nobody writes meanwhile.
        # Reentrant, because a signal's handler may set what it has interrupted.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the wake is set."""
        return self._reader

    def set(self, topic: str | None = None) -> None:
        """Make the descriptor readable, saying which topic was named, None for any.

        Harmless after close, and in a forked child.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._topics.add(topic or ANY)
                self._write()

    def _write(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # full means it is set already

    def clear(self) -> bool:
        """Take the wake-up back; return whether there was one. A forked child takes none of its parent's."""
        was_set = False
        if os.getpid() != self._pid:
            return was_set
        with self._lock:
            try:
                while not self._closed and os.read(self._reader, 4096):
                    was_set = True
            except BlockingIOError:
                return was_set
        return was_set

    def take_topics(self) -> Set[str]:
        """Return, and forget, the topics named since the last call; ``ANY`` among them stands for all."""
        if os.getpid() != self._pid:
            return frozenset()
        with self._lock:
            topics, self._topics = self._topics, set()
        return topics

    def wait(self, timeout_seconds: float | None, *, clear: bool = True) -> bool:
        """Block until set or until the time is over; return whether it was set, and clear it, or not."""
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        was_set = bool(poller.poll(None if timeout_seconds is None else max(0.0, timeout_seconds) * 1000))
        return self.clear() if clear else was_set

    def close(self) -> None:
        """Free the descriptors; setting it afterwards does nothing. A forked child keeps its copies."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)
