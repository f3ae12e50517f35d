"""Declare, read, pause and count queues, and delete them."""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from typing import Any

    from django_mq.stores.records import Counts, QueueRecord


class Queues(ABC):
    """Declare, read, pause and count queues, and delete them."""

    @abstractmethod
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        """Create the queue unless it exists; return whether it was created. Existing options are kept."""

    @abstractmethod
    def link(self, name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None) -> None:
        """Name other queues for what leaves a queue, which did not exist when it was created."""

    @abstractmethod
    def find(self, name: str) -> QueueRecord | None:
        """Return the queue's record as it is now, None if there is no such queue."""

    @abstractmethod
    def paused(self, names: Sequence[str]) -> Set[str]:
        """Return which of these queues are paused now."""

    @abstractmethod
    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        """Pause the queue, for ``seconds`` or until you resume it, or resume it. Raises UnknownQueue."""

    @abstractmethod
    def free_groups(self, name: str, group: str | None = None) -> int:
        """Let all groups of a queue, or one, find new owners; return how many had one. Raises UnknownQueue.

        An owner before finishes what it has claimed; the group waits until then.
        """

    @abstractmethod
    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        """Count messages per queue and state, each count stopping at ``limit``; one statement.

        Those that are retrying may be counted among the 1,000 scheduled ones of each queue that are due first.
        """

    @abstractmethod
    def occupied(self) -> list[int]:
        """Return the queue ids of all messages, in any order, also of queues that do not exist."""

    def count_unknown(self, *, limit: int) -> int:
        """Count messages in a state that this version does not know, stopping at ``limit``."""
        return 0


class Deletions(ABC):
    """Remove all messages of a queue; delete queues, on demand or when nothing uses them."""

    @abstractmethod
    def purge(self, name: str, *, dead: bool = True) -> int:
        """Remove scheduled, ready and parked messages, and ``dead`` ones, but none that arrives meanwhile."""

    @abstractmethod
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete an empty queue, or with ``force`` one with unclaimed messages; return the number of messages.

        They go to the queue's dead-letter queue ("queue deleted"), or are dropped without one. Raises
        UnknownQueue, and QueueInUse if messages are left, if the dead-letter queue has not enough room for all, or
        if it is the dead-letter queue of another queue.
        """

    @abstractmethod
    def delete_unused(self) -> dict[str, int]:
        """Delete queues whose time of ``expires_seconds`` is over, and empty ones with ``auto_delete``.

        They are deleted as ``delete_queue`` does. Returns how many messages were in each. A queue that cannot be
        deleted is tried again after a minute.
        """

    @abstractmethod
    def note_use(self, names: Sequence[str]) -> None:
        """Let the time of ``expires_seconds`` begin again, for a queue that is declared again."""
