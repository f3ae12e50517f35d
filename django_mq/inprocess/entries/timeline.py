"""Scheduled, expiring and held entries, each in the order of their time."""

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from django_mq.inprocess.entries.lists import OrderedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.lists import EntryList


#: The time of an event that does not happen.
NEVER = float("inf")
#: The time of a queue before its first call with ``now``.
UNTOLD = -NEVER


def due_order(entry: "Entry") -> tuple[float, int, int]:
    """Sort key: earliest due first; at the same instant redeliveries first, then by arrival.

    Artemis puts redeliveries due at one instant in reverse order of their return, which
    swaps two that were returned one by one; here they keep their order of arrival.
    """
    due_at = NEVER if entry.due_at is None else entry.due_at
    return due_at, 0 if entry.redelivered else 1, entry.arrival


def expiry_order(entry: "Entry") -> tuple[float, int]:
    """Sort key: earliest expiry first, then by arrival."""
    return NEVER if entry.expires_at is None else entry.expires_at, entry.arrival


class Timeline(OrderedList):
    """Entries ordered by ``key``. Its first element is a time in seconds."""

    def __init__(self, key: "Callable[[Entry], tuple[float, *tuple[int, ...]]]") -> None:
        super().__init__(key)
        #: The earliest time; NEVER if there are no entries.
        self.next_time = NEVER

    def add(self, entry: "Entry") -> None:
        super().add(entry)
        self.next_time = min(self.next_time, self._key(entry)[0])

    def remove(self, entry: "Entry") -> bool:
        removed = super().remove(entry)
        if removed:
            head = self.head()
            self.next_time = NEVER if head is None else self._key(head)[0]
        return removed

    def until(self, now: float, most: int | None = None) -> "list[Entry]":
        """Return the due entries, earliest first, ``most`` at most."""
        return list(islice(takewhile(lambda entry: self._key(entry)[0] <= now, self), most))

    def pop_until(self, now: float, most: int | None = None) -> "list[Entry]":
        """Remove and return the due entries, earliest first, ``most`` at most."""
        due = self.until(now, most)
        for entry in due:
            self.remove(entry)
        return due


class Holding:
    """The held entries of one queue: they stand in line and cannot be claimed yet (Qpid).

    Later entries overtake a held one. When its time has passed, it becomes ready where it arrived, as soon as the
    periodic check, or a consumer that reaches it, finds it. A consumer that has passed it while it was
    held does not look back for it.
    """

    def __init__(self, line: "EntryList") -> None:
        self._waiting = Timeline(due_order)
        #: Due entries that are not ready yet.
        self._overdue = OrderedList(line.position)
        #: The entry that each consumer looked at last; None: the end of the queue.
        self._passed: dict[Consumer, Entry | None] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._overdue)

    def __iter__(self) -> "Iterator[Entry]":
        yield from self._waiting
        yield from self._overdue

    def add(self, entry: "Entry") -> None:
        self._waiting.add(entry)

    def next_time(self) -> float:
        """Return when the next entry may become ready: NEVER if none is held, 0 if one is overdue."""
        return 0.0 if self._overdue else self._waiting.next_time

    def remove(self, entry: "Entry") -> bool:
        """Remove an entry; False if it is not here."""
        return self._waiting.remove(entry) or self._overdue.remove(entry)

    def looked(self, consumer: "Consumer", entry: "Entry | None") -> None:
        """Note that the consumer was given this entry; None for the end of the queue."""
        self._passed[consumer] = entry

    def gone(self, consumer: "Consumer") -> None:
        """Forget a consumer that has left."""
        self._passed.pop(consumer, None)

    def seen_by(self, consumer: "Consumer", now: float) -> "list[Entry]":
        """Return the overdue entries that the consumer has not passed, in order."""
        overdue = self.overdue(now)
        if consumer not in self._passed:
            return overdue
        last, position = self._passed[consumer], self._overdue.position
        return [] if last is None else [entry for entry in overdue if position(entry) > position(last)]

    def overdue(self, now: float) -> "list[Entry]":
        """Return every overdue entry, in order."""
        for entry in self._waiting.pop_until(now):
            self._overdue.add(entry)
        return list(self._overdue)
