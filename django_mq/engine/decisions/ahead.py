"""How many messages a session claims that it does not begin at once: what it begins very soon, by its last pace.

A statement for a few messages costs more than handlers that take a millisecond. So a session whose messages end
quickly claims what it ends within ``AHEAD_SECONDS``. Since only the pace since the last claim counts, slow and
idle sessions claim nothing ahead.
"""

from __future__ import annotations

from typing import Final

#: How long claimed messages last, in seconds: it bounds how late a more urgent one may be.
AHEAD_SECONDS: Final = 0.05
#: The most messages that one statement claims.
MOST_AHEAD: Final = 500
#: Messages that have waited so long, in seconds, go back: what was quick has become slow.
STALE_SECONDS: Final = 0.2


class Pace:
    """How quickly a session ends messages. Times are seconds of one clock."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._settled = 0
        self._limit = 0

    def amount(self, settled: int, now: float) -> int:
        """Return how many messages may be claimed and not ended, by how many have ever ended.

        It is at most twice the last claim: one quick message proves little.
        """
        seconds = now - self._since
        pace = (settled - self._settled) / seconds if seconds > 0 else 0.0
        return max(0, min(MOST_AHEAD, self._limit, int(pace * AHEAD_SECONDS)))

    def claimed(self, settled: int, held: int, now: float) -> None:
        """Measure anew after a claim, after which so many are held."""
        self._since, self._settled, self._limit = now, settled, 2 * held
