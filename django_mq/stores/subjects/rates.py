"""What limits by key have used, and what is known of their keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import Allowed, KeyState, LimitedKey, LimitFacts, Slot


class Rates(ABC):
    """What limits by key have used, and what is known of their keys."""

    @abstractmethod
    def facts(self, queue: str) -> LimitFacts:
        """Return what is known of the keys of the queue's limits.

        A slot counts while its message is claimed by the claim that took it, or while its run goes on. So each way
        in which a claim ends frees its slots.
        """

    @abstractmethod
    def running(self, queue: str) -> Mapping[LimitedKey, int]:
        """Return how many messages run of each key of which only so many may run at once, without a lock."""

    @abstractmethod
    def use(self, queue: str, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot]) -> None:
        """Write what keys have used, and which messages have slots, in a claim that has the queue's claim lock.

        Slots whose messages are gone are deleted.
        """

    @abstractmethod
    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        """Let nothing of a key begin for so many seconds. It locks no row that a claim reads."""

    @abstractmethod
    def allow(self, queue: str, limit: str, key: str, given: Allowed) -> None:
        """Let a key have another rate or number than the code says; nothing for those of the code."""

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete what says no more than that everything is free, of each queue so many rows; return how many.

        Of a limit or a queue that is gone, that is everything an hour after the last claim by its limits.
        """
