"""Take messages out of the way of claims, and bring them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.stores.records import Parked


class Parking(ABC):
    """Take messages out of the way of claims, and bring them back.

    A parked message keeps its place and its attempts. No claim reads it, so it costs the others nothing. The
    verdict ``PARK`` parks a claimed message. All of this is a part of the caller's transaction, if one is open.
    """

    @abstractmethod
    def park(self, parked: Sequence[Parked]) -> frozenset[int]:
        """Park ready messages; return the row ids of those that were parked.

        Messages in other states, and those that other transactions have locked, are left out.
        """

    @abstractmethod
    def free(self, queue: str, key: str, limit: int) -> int:
        """Make the first parked messages of a key ready, in their order, ``limit`` at most; return how many."""

    @abstractmethod
    def free_due(self, limit: int, queues: Collection[str] | None = None) -> int:
        """Make the parked messages ready whose time has come, in these queues or in all; return how many.

        Maintenance does so for all queues. A claim does so in queues whose claims depend on rules.
        """
