"""What a queue asks of the list its ready entries stand in."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message


class EntryList(ABC):
    """Ready entries in the order they are served.

    The order of two entries is the same for ever, so an entry that was removed and is added
    again stands where it stood. The queue holds its lock around every call.
    """

    __slots__ = ()

    @abstractmethod
    def add(self, entry: "Entry") -> "Entry | None":
        """Put an entry in its place; it must not be in the list already.

        Answers the entry that is worthless now: one that it replaces, which is out of the list by
        then, if it was not claimed or scheduled, or ``entry`` itself, not added. Nearly always None.
        """

    @abstractmethod
    def head(self) -> "Entry | None":
        """The entry to serve first; None if the list is empty."""

    @abstractmethod
    def next(self, entry: "Entry") -> "Entry | None":
        """The first entry that stands behind ``entry``, whether or not that is still here."""

    @abstractmethod
    def remove(self, entry: "Entry") -> bool:
        """Take an entry out; False if it was not in the list."""

    @abstractmethod
    def __iter__(self) -> "Iterator[Entry]":
        """The entries in order; the list must not change meanwhile."""

    @abstractmethod
    def __len__(self) -> int:
        """How many entries stand in the list."""

    def position(self, entry: "Entry") -> Any:
        """What the list is ordered by, least first; it never changes for an entry."""
        return entry.order

    def heads(self) -> "Iterable[Entry]":
        """The first entry of each part of the list that is served in order of arrival."""
        head = self.head()
        return () if head is None else (head,)

    def least_significant(self) -> "Iterator[Entry]":
        """The entries in the order in which a full queue gives them up: the oldest first."""
        return iter(self)

    def value_of(self, message: "Message") -> str | None:  # noqa: ARG002
        """What a list that keeps last values tells the message by; None if it replaces nothing."""
        return None

    def forget(self, entry: "Entry") -> None:  # noqa: B027
        """The entry is gone for good; it was in the list, or somebody held it. Most need not know."""
