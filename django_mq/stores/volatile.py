"""The volatile lane of a store: rows that nobody may rely on, and that go with their reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Volatile(ABC):
    """The part of a store that carries remote control, events and replies."""

    @abstractmethod
    def volatile_bind(
        self, *, exchange: str, exchange_type: str, pattern: str, queue: str, seconds: float
    ) -> None:
        """Bind a volatile queue for so long; binding again renews it."""

    @abstractmethod
    def volatile_bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Return (pattern, queue) of every live volatile binding of the exchange."""

    @abstractmethod
    def volatile_put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        """Leave a copy for each queue, for so long."""

    @abstractmethod
    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        """Take (queue, payload) pairs, oldest first, of messages that still live."""

    @abstractmethod
    def volatile_drop(self, queue: str) -> int:
        """Forget a volatile queue: its bindings and messages. Returns how many messages went."""
