"""A thread that names a coroutine which keeps the event loop from running all others."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

logger = logging.getLogger("django_mq.delivery")

#: How long a loop may take to answer, in seconds, and the time between two questions.
BLOCKED_SECONDS = 0.5
PAUSE_SECONDS = 0.5


class Watcher:
    """Asks a loop, while attempts run, whether it turns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: threading.Thread,
        *,
        is_needed: Callable[[], bool],
        name: Callable[[], str],
    ) -> None:
        """Watch the loop of a thread; ``name`` says in another thread what the loop runs."""
        self._loop = loop
        self._thread = thread
        self._is_needed = is_needed
        self._name = name
        self._stopping = threading.Event()
        #: Whether the loop does not answer.
        self.is_blocked = False
        threading.Thread(target=self._watch, name="django_mq-watcher", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            if self._is_needed():
                self._ask()

    def _ask(self) -> None:
        answered, begin = threading.Event(), time.monotonic()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return  # it is closed
        if answered.wait(BLOCKED_SECONDS):
            return
        stack, name = self._stack(), self._name()
        if answered.is_set():
            return
        self.is_blocked = True
        logger.warning(
            "%s keeps the event loop from running all other handlers, for %.1f s so far. Await what waits, and run"
            " what computes or blocks by asyncio.to_thread. It is here:\n%s",
            name,
            time.monotonic() - begin,
            stack,
        )
        while not (answered.wait(PAUSE_SECONDS) or self._stopping.is_set()):
            pass
        self.is_blocked = False
        logger.warning("The event loop runs again after %.1f s", time.monotonic() - begin)

    def _stack(self) -> str:
        frames = sys._current_frames()  # noqa: SLF001 - named in Python's documentation
        frame = frames.get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
