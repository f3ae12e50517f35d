"""Entries that stand in line and may not be taken yet (Qpid's held messages).

A held entry is overtaken, and when its time has passed it stands where it arrived. Somebody
has to notice: the periodic check, or a consumer that looks at it. A consumer that has passed
it while it was held does not look again by itself.
"""

from typing import TYPE_CHECKING

from django_mq.engine.lists.ordered import OrderedList
from django_mq.engine.schedule import Schedule
from django_mq.engine.timeline import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists.base import EntryList


class Holding:
    """The held entries of one queue."""

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
