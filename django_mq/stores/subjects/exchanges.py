"""Declare exchanges, and bind queues and other exchanges to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.engine.decisions.routing import Exchange, Route


class Exchanges(ABC):
    """Declare exchanges, and bind queues and other exchanges to them."""

    @abstractmethod
    def declare(self, name: str, *, exchange_type: str, alternate: str = "") -> bool:
        """Create the exchange unless it was declared; return whether it was created."""

    @abstractmethod
    def find(self, name: str) -> Exchange | None:
        """Return the exchange with its bindings as they are now, None if there is no such exchange."""

    @abstractmethod
    def delete(self, name: str) -> bool:
        """Delete the exchange and its bindings, but those of transient queues; return whether it was declared."""

    @abstractmethod
    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str, selector: str = "") -> None:
        """Bind a queue to an exchange; binding again changes the selector at most. Raises UnknownQueue."""

    @abstractmethod
    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        """Remove a binding; return whether there was one."""

    @abstractmethod
    def bindings(self, exchange: str) -> list[Route]:
        """Return every durable binding of the exchange, in the order in which they were made."""

    @abstractmethod
    def bind_exchange(self, *, exchange: str, pattern: str, destination: str, selector: str = "") -> None:
        """Let an exchange pass messages on to another; binding again changes the selector at most."""

    @abstractmethod
    def unbind_exchange(self, *, exchange: str, pattern: str, destination: str) -> bool:
        """Remove a binding between exchanges; return whether there was one."""
