"""Change messages for operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.stores.records import Moved


class Operations(ABC):
    """Change messages for operators."""

    @abstractmethod
    def cancel(self, ids: Sequence[int]) -> list[int]:
        """Remove unclaimed messages; return the row ids of those that were removed."""

    @abstractmethod
    def release_held(self, ids: Sequence[int]) -> list[Moved]:
        """Take claimed messages from their session and make them ready; a late verdict is void."""

    @abstractmethod
    def move(self, ids: Sequence[int], target: str) -> list[Moved]:
        """Move unclaimed messages to the tail of another queue, by its rules; their attempts begin again.

        It moves as many as fit, in order; a ring makes room for all. Raises UnknownQueue, QueueClosed, and
        QueueFull if the first does not fit.
        """

    @abstractmethod
    def deliver_now(self, ids: Sequence[int]) -> list[Moved]:
        """Make scheduled messages ready, in due order, and parked ones."""

    @abstractmethod
    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> list[Moved]:
        """Give scheduled, ready or parked messages another, aware, time of delivery, and its place.

        They are ready if the time is over, and then their limits are asked again. Values of a last-value
        queue do not change.
        """

    @abstractmethod
    def prioritise(self, ids: Sequence[int], priority: int) -> list[Moved]:
        """Move ready, scheduled or parked messages to the tail of the level of another priority.

        Parked ones are ready then, and their limits are asked again.
        """

    @abstractmethod
    def redrive(self, ids: Sequence[int]) -> list[Moved]:
        """Make dead messages ready again at their old places; their attempts begin again."""

    @abstractmethod
    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        """Give unclaimed messages this value of a header; None removes the header."""
