"""What limits by key have used, and what is known of their keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.engine.decisions.rates import Rate, Used

#: The name of a limit, and one of its keys.
LimitedKey: TypeAlias = tuple[str, str]


class RatesFacts(NamedTuple):
    """What limits of a queue have used as of ``now``, in seconds since 1970 by the database's clock.

    Keys of which everything is free are left out.
    """

    now: float
    used: Mapping[LimitedKey, Used]
    #: Until when nothing of a key begins.
    held: Mapping[LimitedKey, float]
    #: What operators allow keys instead of what the code says.
    exceptions: Mapping[LimitedKey, Rate]


class Rates(ABC):
    """What limits by key have used, and what is known of their keys."""

    @abstractmethod
    def facts(self, queue: str) -> RatesFacts:
        """Return what is known of the keys of the queue's limits."""

    @abstractmethod
    def use(self, queue: str, used: Mapping[LimitedKey, Used]) -> None:
        """Write what keys have used, in the transaction of a claim that has the queue's claim lock."""

    @abstractmethod
    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        """Let nothing of a key begin for so many seconds. It locks no row that a claim reads."""

    @abstractmethod
    def allow(self, queue: str, limit: str, key: str, rate: Rate | None) -> None:
        """Let a key have another rate than the code says; None for that of the code."""

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete what says no more than that everything is free; return how many rows."""
