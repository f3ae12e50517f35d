"""Log an outage of a server when it begins, then at growing intervals, and when it is over.

Several parts of a process notice the same outage: the loop of a worker, its heartbeat, and the writer of its
settlements. They share one ``Outage``, so the log has each line once.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakSet

from django_mq.engine.decisions.backoff import Backoff
from django_mq.errors import LockHeld, SessionLost, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Time between two lines about an outage.
INTERVALS = Backoff(base_seconds=10.0, multiplier=2.0, cap_seconds=600.0)

#: Time between two tries to reach the database.
PAUSES = Backoff(base_seconds=0.1, multiplier=2.0, cap_seconds=1.0)

UNUSABLE = "cannot be used"
REFUSES = "refuses a statement"
LOCKED = "does not give a lock"


def pause_seconds(failures: int) -> float:
    """Return how long to wait before the next try; ``failures`` is how many tries failed before the last one."""
    return PAUSES.spread(failures + 1)


#: The outages that are not over. While there is none, a part that works does not have to report it.
ongoing: set[Outage] = set()


class Outage:
    """The outage of one server. It is over when no part of the process that failed still fails.

    There is no lock: signal handlers and forked children use it, too. Threads that race log a line twice at worst.
    """

    def __init__(
        self, server: str, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._logger = logger
        self._clock = clock
        self._failing: WeakSet[object] = WeakSet()
        self._since: float | None = None
        # The problems that were logged in this outage.
        self._logged: set[str] = set()
        self._next_at = 0.0
        self._lines = 0

    def failed(self, part: object, error: Exception, consequence: str = "") -> None:
        """Log that ``part`` failed, unless a line about this outage was logged a short time ago.

        A refused statement is logged as an error: it can need your attention.
        """
        if isinstance(error, SessionLost):
            return  # the database works
        now = self._clock()
        refused = isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)
        level, problem = (logging.ERROR, REFUSES) if refused else (logging.WARNING, UNUSABLE)
        if isinstance(error, LockHeld):
            problem = LOCKED
        if self._since is None:
            self._since, self._lines, self._next_at = now, 1, now + INTERVALS.delay(1)
        self._failing.add(part)
        ongoing.add(self)
        if problem not in self._logged:
            self._logged.add(problem)
            lasting = ""
        elif now >= self._next_at:
            self._lines += 1
            self._next_at = now + INTERVALS.delay(self._lines)
            lasting = f", for {now - self._since:.0f} s now"
        else:
            return
        self._logger.log(
            level, "%s %s%s, trying again%s: %s", self._server, problem, lasting, consequence, error, stacklevel=2
        )

    def succeeded(self, part: object) -> None:
        """Note that ``part`` works; log the end of the outage if no other part fails."""
        if self._since is None:
            return
        self._failing.discard(part)
        if self._failing:
            return
        since, self._since = self._since, None
        ongoing.discard(self)
        if since is not None:  # another thread may have logged the end
            self._logged.clear()
            self._logger.warning("%s works again, after %.1f s", self._server, self._clock() - since)

    def leave(self, part: object) -> None:
        """Do not wait for ``part``, which ends."""
        self._failing.discard(part)


@cache
def database(alias: str) -> Outage:
    """Return the outage of a database, which all parts of the process share."""
    return Outage(f"The database {alias!r}", logging.getLogger("django_mq.delivery"))
