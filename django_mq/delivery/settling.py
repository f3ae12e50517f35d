"""Outcomes gathered, to be written together: with the next claim, or by count and by time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.verdict import Verdict
from django_mq.stores.records import Settlement

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Settlements written by one statement at most.
BATCH = 1000
#: Settlements waiting for so long, in seconds, are written even if nothing is to be claimed.
LINGER_SECONDS = 0.01
#: So many waiting settlements are written at once.
CROWD = 256
#: Settlements that could not be written for so long, in seconds, are written over a new connection.
RECONNECT_SECONDS = 2.0
#: Messages whose settlements could not be written for so long, in seconds, not over new connections either,
#: are given back.
GIVE_UP_SECONDS = 60.0
#: Longest pause between two tries to write settlements, in seconds.
PAUSE_SECONDS = 1.0
#: How long a message is held back whose settlement the database has refused.
REFUSED_DELAY_SECONDS = 60.0


class Settlements:
    """A queue of settlements. Any thread may add; adding never touches the database.

    That is what makes acknowledging safe from pool threads and from signal handlers that
    interrupt a claim: whoever is in the database takes the settlements along when done.
    """

    def __init__(self) -> None:
        self._waiting: deque[Settlement] = deque()
        self._since: float | None = None
        # Since when every write has failed.
        self._failing_since: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, settlement: Settlement) -> None:
        """Let a settlement wait for the next write."""
        self._waiting.append(settlement)
        if self._since is None:
            self._since = time.monotonic()

    def age_seconds(self) -> float:
        """Return for how long the oldest has been waiting."""
        since = self._since
        return 0.0 if since is None or not self._waiting else time.monotonic() - since

    def late(self) -> bool:
        """Whether the oldest has waited long enough."""
        return self.age_seconds() >= LINGER_SECONDS

    def pressing(self) -> bool:
        """Whether they should be written now, on their own if need be."""
        return len(self._waiting) >= CROWD or self.late()

    def take(self) -> list[Settlement]:
        """Take a batch; whoever takes it writes it or puts it back."""
        batch: list[Settlement] = []
        self._since = None
        while self._waiting and len(batch) < BATCH:
            batch.append(self._waiting.popleft())
        if self._waiting:
            self._since = time.monotonic()
        return batch

    def put_back(self, batch: Sequence[Settlement]) -> None:
        """Return a batch that could not be written, to its place."""
        self._waiting.extendleft(reversed(batch))
        if not batch:
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._failing_since = now if self._failing_since is None else self._failing_since

    def stop_failing(self) -> None:
        """Forget the failures: settlements were written, or what failed is gone."""
        self._failing_since = None

    def failing_seconds(self) -> float:
        """Return for how long no settlement could be written, 0 if the last one could."""
        since = self._failing_since
        return 0.0 if since is None else time.monotonic() - since

    def stale(self, seconds: float) -> bool:
        """Whether the oldest has waited for so long, or, where writing fails, for a pause that grows."""
        return self.age_seconds() > max(seconds, min(self.failing_seconds() / 4, PAUSE_SECONDS))


def without_details(settlement: Settlement) -> Settlement:
    """The same verdict, without what the database may refuse to store."""
    return replace(settlement, failure=None, reason="")


def given_back(settlement: Settlement) -> Settlement:
    """In place of a verdict that the database refuses: back to its place, counted, and not at once again."""
    return Settlement(
        settlement.id, settlement.claim, Verdict.RELEASE, counted=True, delay_seconds=REFUSED_DELAY_SECONDS
    )
