"""Entries by the time at which something must happen to them: scheduled, expiring and held ones."""

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from django_mq.engine.lists import OrderedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists import EntryList


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


def due_order(entry: "Entry") -> tuple[float, int, int]:
    """Earliest due first; at the same instant redeliveries first, then by arrival."""
    due_at = NEVER if entry.due_at is None else entry.due_at
    return due_at, 0 if entry.redelivered else 1, entry.arrival


class Schedule(Timeline):
    """Scheduled entries in the order they become due.

    Artemis puts redeliveries due at one instant in reverse order of their return, which
    swaps two that were returned one by one; here they keep their arrival order.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=due_order)


def expiry_order(entry: "Entry") -> tuple[float, int]:
    """Earliest expiry first."""
    return NEVER if entry.expires_at is None else entry.expires_at, entry.arrival


class Expiring(Timeline):
    """Ready entries that have an expiry, in the order they expire.

    Only those that stand in line: a scheduled message becomes due first, and a claimed one
    expires when it is given back, because work that has begun cannot be undone.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=expiry_order)


class Calendar:
    """The scheduled entries, and those in line that will expire."""

    __slots__ = ("expiring", "quiet_until", "schedule")

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.expiring = Expiring()
        #: Nothing becomes due before this time. It may be too early, after an entry has gone
        #: otherwise, but never too late: one comparison spares a delivery a look.
        self.quiet_until = NEVER

    def hold(self, entry: "Entry") -> None:
        """Keep a scheduled entry until it is due."""
        self.schedule.add(entry)
        self.quiet_until = min(self.quiet_until, self.schedule.next_time())

    def watch(self, entry: "Entry") -> None:
        """Note when an entry expires that can be delivered until then."""
        self.expiring.add(entry)

    def look_again(self) -> None:
        """After what had come due was taken out: find out when the next thing happens."""
        self.quiet_until = self.schedule.next_time()

    def next_time(self) -> float:
        """When anything becomes due or expires next; NEVER if nothing will."""
        return min(self.schedule.next_time(), self.expiring.next_time())


class Holding:
    """The held entries of one queue: they stand in line and may not be taken yet (Qpid).

    A held entry is overtaken, and when its time has passed it stands where it arrived, as soon as the
    periodic check, or a consumer that looks at it, notices. A consumer that has passed it while it was
    held does not look again by itself.
    """

    __slots__ = ("_overdue", "_passed", "_waiting")

    def __init__(self, line: "EntryList") -> None:
        self._waiting = Schedule()
        #: Their time has passed, and nobody has noticed.
        self._overdue = OrderedList(line.position)
        #: What each consumer looked at last; None: the end of the queue.
        self._passed: dict[Consumer, Entry | None] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._overdue)

    def __iter__(self) -> "Iterator[Entry]":
        yield from self._waiting
        yield from self._overdue

    def add(self, entry: "Entry") -> None:
        """Keep an entry until its time has passed."""
        self._waiting.add(entry)

    def next_time(self) -> float:
        """When the next entry may stand ready; NEVER if none is held, and at once if one is overdue."""
        return NEVER if not self else 0.0 if self._overdue else self._waiting.next_time()

    def remove(self, entry: "Entry") -> bool:
        """Take an entry out; False if it is not here."""
        return self._waiting.remove(entry) or self._overdue.remove(entry)

    def looked(self, consumer: "Consumer", entry: "Entry | None") -> None:
        """The consumer was given this entry, or came to the end."""
        self._passed[consumer] = entry

    def gone(self, consumer: "Consumer") -> None:
        """The consumer is no more."""
        self._passed.pop(consumer, None)

    def seen_by(self, consumer: "Consumer", now: float) -> "list[Entry]":
        """Take out the overdue entries in front of the consumer, in order."""
        self._ripen(now)
        if consumer not in self._passed:
            return self.overdue(now)
        return list(self._behind(self._passed[consumer]))

    def _behind(self, last: "Entry | None") -> "Iterator[Entry]":
        while last is not None and (entry := self._overdue.next(last)) is not None:
            self._overdue.remove(entry)
            yield entry

    def overdue(self, now: float) -> "list[Entry]":
        """Take out every entry whose time has passed, in order."""
        self._ripen(now)
        return [entry for entry in list(self._overdue) if self._overdue.remove(entry)]

    def _ripen(self, now: float) -> None:
        for entry in self._waiting.pop_until(now):
            self._overdue.add(entry)
