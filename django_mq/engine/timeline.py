"""Scheduled, expiring and held entries, each in the order of their time."""

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from django_mq.engine.lists import OrderedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists import EntryList


#: The time of an event that does not happen.
NEVER = float("inf")
#: The time of a queue before its first call with ``now``.
UNTOLD = -NEVER


class Timeline(OrderedList):
    """Entries ordered by ``key``. Its first element is a time in seconds."""

    __slots__ = ()

    def __init__(self, key: "Callable[[Entry], tuple[float, *tuple[int, ...]]]") -> None:
        super().__init__(key)

    def next_time(self) -> float:
        """Return the earliest time; NEVER if there are no entries."""
        head = self.head()
        return NEVER if head is None else float(self._key(head)[0])

    def until(self, now: float, most: int) -> "list[Entry]":
        """Return the due entries, earliest first, ``most`` at most."""
        return list(islice(takewhile(lambda entry: self._key(entry)[0] <= now, self), most))

    def pop_until(self, now: float, most: int | None = None) -> "list[Entry]":
        """Remove and return the due entries, earliest first, ``most`` at most."""
        popped: list[Entry] = []
        while (head := self.head()) is not None and self._key(head)[0] <= now and len(popped) != most:
            self.remove(head)
            popped.append(head)
        return popped


def due_order(entry: "Entry") -> tuple[float, int, int]:
    """Sort key: earliest due first; at the same instant redeliveries first, then by arrival."""
    due_at = NEVER if entry.due_at is None else entry.due_at
    return due_at, 0 if entry.redelivered else 1, entry.arrival


class Schedule(Timeline):
    """Scheduled entries in the order in which they become due.

    Artemis puts redeliveries due at one instant in reverse order of their return, which
    swaps two that were returned one by one; here they keep their order of arrival.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=due_order)


def expiry_order(entry: "Entry") -> tuple[float, int]:
    """Sort key: earliest expiry first, then by arrival."""
    return NEVER if entry.expires_at is None else entry.expires_at, entry.arrival


class Expiring(Timeline):
    """Ready entries that have an expiry, in the order in which they expire.

    Only ready ones: a scheduled message becomes due first, and a claimed one
    expires when it is given back, because work that has begun cannot be undone.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=expiry_order)


class Calendar:
    """The scheduled entries, and the ready ones that expire."""

    __slots__ = ("expiring", "quiet_until", "schedule")

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.expiring = Expiring()
        #: No entry becomes due before this time, so that a delivery needs one comparison. It may be
        #: too early, after an entry was removed, but never too late.
        self.quiet_until = NEVER

    def hold(self, entry: "Entry") -> None:
        self.schedule.add(entry)
        self.quiet_until = min(self.quiet_until, self.schedule.next_time())

    def watch(self, entry: "Entry") -> None:
        self.expiring.add(entry)

    def look_again(self) -> None:
        """Update ``quiet_until`` after due entries were removed."""
        self.quiet_until = self.schedule.next_time()

    def next_time(self) -> float:
        """Return when the next entry becomes due or expires; NEVER if none will."""
        return min(self.schedule.next_time(), self.expiring.next_time())


class Holding:
    """The held entries of one queue: they stand in line and cannot be claimed yet (Qpid).

    Later entries overtake a held one. When its time has passed, it becomes ready where it arrived, as soon as the
    periodic check, or a consumer that reaches it, finds it. A consumer that has passed it while it was
    held does not look back for it.
    """

    __slots__ = ("_overdue", "_passed", "_waiting")

    def __init__(self, line: "EntryList") -> None:
        self._waiting = Schedule()
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
        return NEVER if not self else 0.0 if self._overdue else self._waiting.next_time()

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
        """Remove and return the overdue entries that the consumer has not passed, in order."""
        self._ripen(now)
        if consumer not in self._passed:
            return self.overdue(now)
        return list(self._behind(self._passed[consumer]))

    def _behind(self, last: "Entry | None") -> "Iterator[Entry]":
        while last is not None and (entry := self._overdue.next(last)) is not None:
            self._overdue.remove(entry)
            yield entry

    def overdue(self, now: float) -> "list[Entry]":
        """Remove and return every overdue entry, in order."""
        self._ripen(now)
        return [entry for entry in list(self._overdue) if self._overdue.remove(entry)]

    def _ripen(self, now: float) -> None:
        for entry in self._waiting.pop_until(now):
            self._overdue.add(entry)
