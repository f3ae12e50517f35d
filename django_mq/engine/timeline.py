"""Entries by the time at which something must happen to them."""

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from django_mq.engine.lists.ordered import OrderedList

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.entry import Entry

#: The time of nothing.
NEVER = float("inf")

#: What the time is before anybody has told it.
UNTOLD = -NEVER


class Timeline(OrderedList):
    """Entries ordered by ``key``, whose first element is a time in seconds."""

    __slots__ = ()

    def __init__(self, key: "Callable[[Entry], tuple[float, *tuple[int, ...]]]") -> None:
        super().__init__(key)

    def next_time(self) -> float:
        """The earliest time of all; NEVER if there is none."""
        head = self.head()
        return NEVER if head is None else float(self._key(head)[0])

    def until(self, now: float, most: int) -> "list[Entry]":
        """The entries whose time has come, earliest first: so many at most."""
        return list(islice(takewhile(lambda entry: self._key(entry)[0] <= now, self), most))

    def pop_until(self, now: float, most: int | None = None) -> "list[Entry]":
        """Take out the entries whose time has come, earliest first: all of them, or so many."""
        popped: list[Entry] = []
        while (head := self.head()) is not None and self._key(head)[0] <= now and len(popped) != most:
            self.remove(head)
            popped.append(head)
        return popped
