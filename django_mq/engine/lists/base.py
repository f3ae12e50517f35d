"""What a queue asks of the list its ready entries stand in."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.entry import Entry


class EntryList(ABC):
    """Ready entries in the order they are served.

    The order of two entries is the same for ever, so an entry that was removed and is added
    again stands where it stood. The queue holds its lock around every call.
    """

    __slots__ = ()

    @abstractmethod
    def add(self, entry: "Entry") -> None:
        """Put an entry in its place; it must not be in the list already."""

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
