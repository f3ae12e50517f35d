"""Entries in order of a key, kept in short runs.

Nearly every entry is added at the tail and removed at the head; both touch one end of one
short Python list and cost the same for ten entries as for ten million. A few come back out
of turn: they are placed by bisection, first among the runs, then inside one.

Positions are keys, not links: ``next`` works for an entry that has long been removed, and
sees whatever has come to stand behind it since.
"""

from bisect import bisect_left, bisect_right, insort
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.lists.base import EntryList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.entry import Entry

#: Entries in one run. Removing at the head moves the rest of the run up: 2 KiB at most.
RUN_LENGTH: Final = 256


class OrderedList(EntryList):
    """A list in ascending order of ``key``, which must be unique and never change."""

    __slots__ = ("_key", "_length", "runs")

    def __init__(self, key: "Callable[[Entry], Any]") -> None:
        self._key = key
        #: None of them is empty.
        self.runs: list[list[Entry]] = []
        self._length = 0

    def position(self, entry: "Entry") -> Any:
        return self._key(entry)

    def add(self, entry: "Entry") -> "Entry | None":
        self._length += 1
        runs = self.runs
        if not runs:
            runs.append([entry])
            return None
        tail = runs[-1]
        if self._key(entry) < self._key(tail[-1]):
            self._insert(entry)
        elif len(tail) < RUN_LENGTH:
            tail.append(entry)
        else:
            runs.append([entry])
        return None

    def _insert(self, entry: "Entry") -> None:
        at = bisect_left(self.runs, self._key(entry), key=self._last_key)
        run = self.runs[at]
        insort(run, entry, key=self._key)
        if len(run) > 2 * RUN_LENGTH:
            self.runs.insert(at + 1, run[RUN_LENGTH:])
            del run[RUN_LENGTH:]

    def _last_key(self, run: "list[Entry]") -> Any:
        return self._key(run[-1])

    def head(self) -> "Entry | None":
        runs = self.runs
        return runs[0][0] if runs else None

    def next(self, entry: "Entry") -> "Entry | None":
        key = self._key(entry)
        at = bisect_right(self.runs, key, key=self._last_key)
        if at == len(self.runs):
            return None
        run = self.runs[at]
        return run[bisect_right(run, key, key=self._key)]

    def remove(self, entry: "Entry") -> bool:
        runs = self.runs
        at = index = 0
        if not runs or runs[0][0] is not entry:
            at, index = self._find(entry)
            if at < 0:
                return False
        del runs[at][index]
        if not runs[at]:
            del runs[at]
        self._length -= 1
        return True

    def _find(self, entry: "Entry") -> tuple[int, int]:
        key = self._key(entry)
        at = bisect_left(self.runs, key, key=self._last_key)
        if at < len(self.runs):
            run = self.runs[at]
            index = bisect_left(run, key, key=self._key)
            if run[index] is entry:
                return at, index
        return -1, -1

    def __iter__(self) -> "Iterator[Entry]":
        return chain.from_iterable(self.runs)

    def __len__(self) -> int:
        return self._length
