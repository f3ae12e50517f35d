"""What the heartbeat of a worker knows of the loop that it speaks for."""

from __future__ import annotations

import threading
import time

from django_mq.engine.decisions.claim import LoopState, loop_state


class Loop:
    """The loop of one worker, which all sessions of the worker share. Any thread may read it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._turned_at = time.monotonic()
        #: The error with which the loop has ended, if it has.
        self.error: BaseException | None = None

    def turn(self, *, waits_seconds: float = 0.0) -> None:
        """Note that the loop turns, in this thread, or waits for so long by its own choice."""
        self._thread, self._turned_at = threading.current_thread(), time.monotonic() + waits_seconds

    def fail(self, error: BaseException) -> None:
        """Note that the loop has ended with an error."""
        self.error = error

    @property
    def has_driver(self) -> bool:
        """Whether the thread of the loop still runs."""
        return self._thread is None or self._thread.is_alive()

    @property
    def still_seconds(self) -> float:
        """How long the loop has made no turn."""
        return time.monotonic() - self._turned_at

    @property
    def state(self) -> LoopState:
        """What the heartbeat is to do about the loop."""
        is_over = self.error is not None or not self.has_driver
        return loop_state(is_over=is_over, still_seconds=self.still_seconds)
