"""Transient queues: remote control, events and replies, in rows that end with their reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Volatile(ABC):
    """Transient queues: remote control, events and replies, in rows that end with their reader."""

    @abstractmethod
    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str, seconds: float) -> None:
        """Bind a volatile queue for so many seconds; binding again renews it."""

    @abstractmethod
    def bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Return (pattern, queue) of every live volatile binding of the exchange."""

    @abstractmethod
    def put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        """Write a copy for each queue, for so many seconds."""

    @abstractmethod
    def take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        """Take messages that are not expired as (queue, payload), oldest first."""

    @abstractmethod
    def is_waiting(self, queues: Sequence[str]) -> bool:
        """Whether some of these queues have a message that is not expired."""

    @abstractmethod
    def drop(self, queue: str) -> int:
        """Delete the bindings and messages of a volatile queue; return how many messages."""
