"""What a worker claims ahead of queues with limits, where a message that waits in its memory uses its limit up.

So it claims what it can begin, and ahead only what it begins very soon, by its pace. What has waited all the same
goes back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq.engine.decisions.claim import STALE_SECONDS, Pace
from django_mq.stores.claim_limits import limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ahead:
    """How much of its queues with limits one session claims. The worker's loop calls it."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = tuple(queues)
        self._pace = Pace(time.monotonic())
        # How many messages it has ever claimed, and when the last ones.
        self._claimed = 0
        self._claimed_at = float("-inf")
        #: With more messages than this that have not ended, no further claim is worth while.
        self.enough = 0

    @property
    def limited(self) -> frozenset[str]:
        """The queues with limits."""
        return frozenset(name for name in self._queues if limits_of(name))

    def amount(self, unfinished: int, slots: int) -> int:
        """Return how many messages to claim beyond the free ``slots``; none before half of the last are done."""
        if not slots and unfinished > self.enough:
            return 0
        most = self._pace.amount(self._claimed - unfinished, time.monotonic())
        return max(0, most - unfinished - slots)

    def claimed(self, number: int, unfinished: int) -> None:
        """Note a claim of so many messages, after which so many have not ended."""
        self._claimed += number
        self._claimed_at = time.monotonic()
        self._pace.claimed(self._claimed - unfinished, number, self._claimed_at)
        self.enough = unfinished // 2

    @property
    def stale_seconds(self) -> float:
        """In how many seconds messages that have not begun go back."""
        return self._claimed_at + STALE_SECONDS - time.monotonic()
