"""How much a transport claims before its channel asks for it.

Celery's window is a few messages for each process. A statement for every few messages would
cost more than tasks that take a millisecond, so a transport whose tasks are quick claims what they
use up in a moment, and hands it over within the window as ever. What is not wanted after
all, because a slow task came, goes back to its place a moment later.

Who decides: the pace since the claim before, so that slow tasks, or an idle worker, claim
their window and nothing more.
"""

from __future__ import annotations

import time

#: Messages are claimed for so long, in seconds: it bounds how late a more urgent one may be.
AHEAD_SECONDS = 0.05
#: Claimed by one statement at most.
MOST = 500
#: What has waited for so long, in seconds, goes back.
STALE_SECONDS = 0.2


class Ahead:
    """The pace of one transport."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._settled = 0
        self._limit = 0

    def amount(self, settled: int) -> int:
        """Return how many messages may be claimed and not settled, given how many were settled ever.

        At most twice what the claim before made it: one quick task proves little.
        """
        seconds = time.monotonic() - self._since
        pace = (settled - self._settled) / seconds if seconds > 0 else 0.0
        return min(MOST, self._limit, int(pace * AHEAD_SECONDS))

    def claimed(self, settled: int, held: int) -> None:
        """Begin to measure anew: a claim has made it so many."""
        self._since, self._settled, self._limit = time.monotonic(), settled, 2 * held
