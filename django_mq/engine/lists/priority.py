"""Higher levels first, and inside a level first come, first served."""

from itertools import chain
from typing import TYPE_CHECKING

from django_mq.engine.levels import MOST_LEVELS
from django_mq.engine.lists.base import EntryList
from django_mq.engine.lists.fifo import FifoList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.entry import Entry


class PriorityList(EntryList):
    """A first-come line per level, walked from the highest to the lowest (Qpid).

    It always has a line for each of the ten possible levels: a queue of fewer levels leaves
    the others empty, at no cost, and still serves rows that were placed when it had more.
    """

    __slots__ = ("_filled", "_length", "_lines")

    def __init__(self) -> None:
        self._lines = [FifoList() for _ in range(MOST_LEVELS)]
        #: Bit n is set exactly while line n has entries. A remembered "highest level" would
        #: sink when that level empties while another above it is skipped; a bit cannot.
        self._filled = 0
        self._length = 0

    def add(self, entry: "Entry") -> None:
        self._lines[entry.level].add(entry)
        self._filled |= 1 << entry.level
        self._length += 1

    def head(self) -> "Entry | None":
        levels = self._filled
        return self._lines[levels.bit_length() - 1].runs[0][0] if levels else None

    def next(self, entry: "Entry") -> "Entry | None":
        following = self._lines[entry.level].next(entry)
        below = self._filled & ((1 << entry.level) - 1)
        return following or (self._lines[below.bit_length() - 1].head() if below else None)

    def remove(self, entry: "Entry") -> bool:
        line = self._lines[entry.level]
        if not line.remove(entry):
            return False
        self._length -= 1
        if not line.runs:
            self._filled &= ~(1 << entry.level)
        return True

    def heads(self) -> "Iterator[Entry]":
        return (head for line in reversed(self._lines) if (head := line.head()) is not None)

    def least_significant(self) -> "Iterator[Entry]":
        return chain.from_iterable(self._lines)

    def __iter__(self) -> "Iterator[Entry]":
        return chain.from_iterable(reversed(self._lines))

    def __len__(self) -> int:
        return self._length
