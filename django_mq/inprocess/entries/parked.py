"""Parked entries, by key in their order, and by the time until which they are parked."""

from operator import attrgetter
from typing import TYPE_CHECKING

from django_mq.inprocess.entries.lists import OrderedList
from django_mq.inprocess.entries.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.inprocess.entries.entry import Entry


def waking_order(entry: "Entry") -> tuple[float, int]:
    """Sort key: the earliest time first, then by arrival."""
    return NEVER if entry.parked_until is None else entry.parked_until, entry.arrival


class ParkedEntries:
    """The parked entries of one queue."""

    def __init__(self) -> None:
        self._by_key: dict[str, OrderedList] = {}
        self.waking = Timeline(waking_order)

    def __len__(self) -> int:
        return len(self.waking)

    def __iter__(self) -> "Iterator[Entry]":
        return iter(self.waking)

    def add(self, entry: "Entry") -> None:
        self.waking.add(entry)
        self._by_key.setdefault(entry.park_key, OrderedList(attrgetter("order"))).add(entry)

    def remove(self, entry: "Entry") -> bool:
        if not self.waking.remove(entry):
            return False
        line = self._by_key[entry.park_key]
        line.remove(entry)
        if not line:
            del self._by_key[entry.park_key]
        return True

    def of(self, key: str) -> "Iterator[Entry]":
        """Return the entries of a key in the order of the queue."""
        return iter(self._by_key.get(key, ()))
