"""Duties that any worker may run, at any time, twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Maintenance(ABC):
    """Duties that any worker may run, at any time, twice."""

    def due_duties(self) -> Mapping[str, bool]:
        """Say of duties of maintenance, by one statement, whether they have something to do.

        A duty that is not in the answer is to run.
        """
        return {"take_over": False, "cover": False}

    @abstractmethod
    def promote(self, limit: int = 1000) -> int:
        """Make due scheduled messages ready, and parked ones whose time has come; return how many."""

    @abstractmethod
    def expire(self, limit: int = 1000) -> int:
        """Remove expired messages that no session holds, or send them on; return how many.

        They go where ``departure`` of the engine says; what an exchange does not take stays as dead.
        """

    @abstractmethod
    def trim(self) -> int:
        """Replace ready messages of rings above their limits, as publishing does; return how many.

        The newest message of a ring stays. A ring that a publisher has locked is left out.
        """

    @abstractmethod
    def bury_unwanted(self) -> int:
        """Make ready messages dead that all consumers of their queue have declined; return how many.

        Not before DECLINE_GRACE_SECONDS after the last of them declined, and after a consumer came or went, as far
        as this store has seen in earlier calls.
        """

    def cover(self) -> bool:
        """Ask messages by the selectors that their queues declare, for a moment; return whether some are left.

        It changes nothing but how long a claim by such a selector takes.
        """
        return False


class Retention(ABC):
    """Delete what is old."""

    @abstractmethod
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        """Delete history, attempts and volatile rows past their time; return how many.

        The history of a queue that keeps none any more is deleted when it is older than a week, or than any other
        queue keeps; ``whole`` looks for it in all of the history.
        """
