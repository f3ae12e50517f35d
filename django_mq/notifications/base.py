"""The two ends of the hint channel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.notifications.wake import Wake


def queue_topic(name: str) -> str:
    """Return the topic of a durable queue."""
    return f"q:{name}"


def volatile_topic(name: str) -> str:
    """Return the topic of a volatile queue."""
    return f"v:{name}"


class Notifier(ABC):
    """Sends hints. Never raises and never waits longer than its time limit: a publisher must not suffer."""

    #: Whether hints reach other processes; if not, workers there look regularly.
    reaches_others: bool

    @abstractmethod
    def send(self, topics: Iterable[str]) -> None:
        """Wake whoever listens to these topics, as far as possible."""

    @abstractmethod
    def listen(self, wake: Wake) -> Listener:
        """Return a listener that sets ``wake``; it hears nothing until it subscribes."""

    def trouble(self) -> str:
        """Send a hint to ourselves and return why it did not come back, nothing if it did. For an examination."""
        return ""


class Listener(ABC):
    """Hears hints for one worker. A reconnect also sets the wake: hints may have been missed."""

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None:
        """Listen to exactly these topics from now on."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether hints arrive now; if not, the worker should look more often."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""
