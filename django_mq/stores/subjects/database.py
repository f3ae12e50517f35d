"""The connection of a store, the caller's transaction, and the clock."""

# ruff: noqa: ARG002 - a default needs no arguments

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from django_mq.stores.records import LockHolder, Space


class Connection(ABC):
    """The connection of a store, the caller's transaction, and the clock."""

    #: The database alias.
    alias: str
    #: Added to the clock; only tests set it.
    clock_offset: timedelta

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit all changes inside or none; a part of the caller's transaction, if one is open."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a message that is appended now waits for the caller's commit."""

    @property
    def in_test(self) -> bool:
        """Whether the open transaction is that of a ``TestCase``: no other connection ever sees its rows."""
        return False

    @abstractmethod
    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back when the caller's transaction commits; at once outside one, never if autocommit is off."""

    @abstractmethod
    def last_after_commit(self) -> Callable[[], None] | None:
        """Return the last callback that waits for the commit."""

    @abstractmethod
    def bound_lock_waits(self, seconds: float) -> None:
        """Limit the wait for a lock, from the next connection on, if statements wait longer otherwise."""

    @abstractmethod
    def answering_within(self, seconds: float) -> AbstractContextManager[None]:
        """Give up the connection if an answer takes longer, where the limit can change while it is open."""

    @contextmanager
    def looking(self, name: str, seconds: float) -> Iterator[bool]:
        """Read in statements that the database ends after so many seconds, one such block of a name at a time.

        Yields whether no other block of this name is open. A statement that was ended raises a DatabaseError.
        """
        yield True

    @abstractmethod
    def disconnect(self) -> bool:
        """Close the connection, the caller's too, unless inside a transaction; return whether it was closed."""

    @abstractmethod
    def reconnect(self) -> bool:
        """Close as ``disconnect`` does, but only a connection that is not usable."""

    @abstractmethod
    def reconnect_if_ended(self) -> bool:
        """Reconnect, if the server has ended the connection: a look at the socket, and rarely a query."""

    @abstractmethod
    def reset_connection(self) -> bool:
        """Undo what statements have set on a connection outside transactions; False if it cannot be undone.

        Locks, temporary tables and the like are released, and settings are as they were when Django had connected.
        Raises StoreError.
        """

    @abstractmethod
    def change_marker(self) -> int | None:
        """Return a number that changes when another connection commits, None if the database has none."""

    @abstractmethod
    def now_skew_seconds(self) -> float:
        """Return the database's clock minus this machine's."""


class Server:
    """What the database says about itself, for the doctor."""

    def shape(self) -> Set[tuple[str, str]]:
        """Return (table, name) of each column and index of our tables; none in memory."""
        return frozenset()

    def spaces(self) -> list[Space]:
        """Return the sizes of our tables, without reading them; none in memory."""
        return []

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        """Return (problem, hint) for tables that grow without need; the hint may be a statement to run."""
        return []

    def setting_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for database settings that make the queue slow or fragile."""
        return []

    def privilege_problems(self) -> list[tuple[str, str]]:
        """Return (problem, hint) for missing privileges that make the queue slow."""
        return []

    def lock_holders(self, seconds: float) -> list[LockHolder]:
        """Return the transactions that have held a lock of a queue for so long, as far as the database tells."""
        return []

    def end_stuck(self, seconds: float) -> list[str]:
        """End connections of workers that have not taken an answer for so long; return the workers.

        They keep what they have locked, and no limit of the database ends them.
        """
        return []
