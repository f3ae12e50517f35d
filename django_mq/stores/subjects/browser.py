"""Read messages, without a claim."""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import Browsed


class Browser(ABC):
    """Read messages, without a claim.

    Follow new messages, each once, over a private connection and outside transactions."""

    @abstractmethod
    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        """Return messages of one queue in delivery order, without a claim."""

    @abstractmethod
    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        """Return the waiting messages with one of these correlation ids or message ids."""

    @abstractmethod
    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        """Return messages of one queue in any state beyond an arrival number, in the order of arrival."""

    @abstractmethod
    def last_arrival(self) -> int:
        """Return the last arrival number that was given, of all queues."""

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Return the open transactions that may still commit an arrival beyond ``after``, up to ``last``.

        Call it with None after ``last_arrival``, then with its last answer. When it returns none, all messages up
        to ``last`` are visible.
        """
        return frozenset()

    def last_finished(self) -> int:
        """Return the last number that was given to a row of the history."""
        return 0

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        """Return the open transactions that may still commit a row of the history, as ``unfinished`` does."""
        return frozenset()
