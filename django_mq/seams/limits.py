"""Limits by key, which extensions add to claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from django_mq.engine.decisions.claim_limits import OpenLimit
    from django_mq.engine.decisions.keyed_limits import LimitFacts


@runtime_checkable
class ClaimLimit(Protocol):
    """A limit of what may begin. Claims of its queues are claims by rules: one after the other, for free slots."""

    def is_for(self, queue: str) -> bool:
        """Return whether claims of the queue ask this limit. It is fast, and reads no database."""

    def holds_runs(self, queue: str) -> bool:
        """Return whether a task that is acknowledged when it begins uses the limit until it has ended."""

    def opened(self, store: Any, queue: str, facts: LimitFacts) -> OpenLimit:
        """Return the limit for one claim, whose transaction is open. No other claim of the queue overlaps it.

        ``facts`` are those of limits by key, which the claim has read.
        """
