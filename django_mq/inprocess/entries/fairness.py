"""Fair places of the entries of one queue."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.fairness import FIRST, HEAD, Fairness, is_placed, present_place, turns
from django_mq.engine.message import Message
from django_mq.inprocess.entries.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.inprocess.entries.lists import EntryList

#: In the list, an entry with this number stands before all others of its place.
BEFORE_ALL = -1


class FairLevel:
    """How far the keys of a level have come."""

    def __init__(self) -> None:
        self.seen = self.latest = FIRST
        self.finishes: dict[str, int] = {}


class FairOrder:
    """Gives ready entries their fair places. ``fairness`` is None while the queue is not shared by keys."""

    def __init__(self, ready: EntryList) -> None:
        self.fairness: Fairness | None = None
        #: Whether entries get their places later, all together.
        self.waits = False
        self._ready = ready
        self._levels: defaultdict[int, FairLevel] = defaultdict(FairLevel)

    def place(self, *entries: Entry) -> None:
        """Give entries that become ready their places, in this order, unless they have one."""
        if self.fairness is None or self.waits:
            return
        new = [entry for entry in entries if not is_placed(entry.place)]
        for number in {entry.level for entry in new}:
            level = self._levels[number]
            head = [(each.place, each.redelivered) for each in self._head(number, level.seen)]
            level.seen = present_place(head, level.seen, level.latest)
        for entry in new:
            self._place(entry, self._levels[entry.level], self.fairness)

    def _place(self, entry: Entry, level: FairLevel, fair: Fairness) -> None:
        key = fair.key_of(entry.message)
        finish = level.finishes.get(key, FIRST)
        [place], finish = turns(1, fair.weight_of(key), present=level.seen, finish=finish)
        level.finishes[key], level.latest = finish, max(level.latest, finish)
        entry.stand_at(place, entry.arrival)

    def unplaced(self) -> list[Entry]:
        """Return the ready entries without a fair place, in order of arrival."""
        waiting = [entry for entry in self._ready if not is_placed(entry.place)]
        return sorted(waiting, key=attrgetter("arrival"))

    def _head(self, level: int, seen: int) -> Iterator[Entry]:
        entry = self._ready.next(Entry(Message(id=""), level, seen, BEFORE_ALL))
        for _ in range(HEAD):
            if entry is None or entry.level != level or not is_placed(entry.place):
                return
            yield entry
            entry = self._ready.next(entry)
