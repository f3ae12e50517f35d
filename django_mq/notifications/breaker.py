"""The breaker: after a failure nothing is tried for a while, so that one dead server slows nobody twice.

Closed, it lets everybody through. A failure opens it; when the pause is over, one caller
tries, while the others still pass by. Each failure in a row doubles the pause, up to a cap,
spread by jitter so that a fleet does not come back in step.
"""

from __future__ import annotations

import os
import random
import threading
import time

#: First and longest pause, in seconds. A server that hangs costs one time limit per pause.
FIRST_SECONDS = 0.5
CAP_SECONDS = 8.0


class Breaker:
    """One for everything a process asks of one server; any thread may use it."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # Never waited for: a signal's handler may publish in the middle of a failure. New in a forked child,
        # where a thread of the parent that held it does not exist.
        self._trying = threading.Lock()

    def lets_through(self, trial_seconds: float) -> bool:
        """Whether to try now; after a pause this is true for one caller per ``trial_seconds``."""
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
        pause: float = min(FIRST_SECONDS * 2.0 ** min(self._failures - 1, 10), CAP_SECONDS)
        pause *= random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
        self._open_until = time.monotonic() + pause
        return pause

    def succeeded(self) -> None:
        """Close."""
        self._failures = 0
