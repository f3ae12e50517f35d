"""Fair places of the entries of one queue."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.engine.decisions.fairness import FIRST, HEAD, Fairness, is_placed, present_place, turns
from django_mq.engine.message import Message
from django_mq.inprocess.entries.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        self._ready = ready
        self._levels: defaultdict[int, FairLevel] = defaultdict(FairLevel)

    def place(self, entry: Entry) -> None:
        """Give an entry that becomes ready its place, unless it has one."""
        if self.fairness is None or is_placed(entry.place):
            return
        level, key = self._levels[entry.level], self.fairness.key_of(entry.message)
        head = [(each.place, each.redelivered) for each in self._head(entry.level, level.seen)]
        level.seen = present_place(head, level.seen, level.latest)
        finish, weight = level.finishes.get(key, FIRST), self.fairness.weight_of(key)
        [place], finish = turns(1, weight, present=level.seen, finish=finish)
        level.finishes[key], level.latest = finish, max(level.latest, finish)
        entry.stand_at(place, entry.arrival)

    def in_turn(self, due: Iterable[Entry]) -> list[Entry]:
        """Return due entries in the order in which they get their places: those that have one first."""
        return sorted(due, key=lambda entry: (not is_placed(entry.place), entry.arrival))

    def unplaced(self) -> list[Entry]:
        """Return the ready entries without a fair place, in order of arrival."""
        return self.in_turn(entry for entry in self._ready if not is_placed(entry.place))

    def _head(self, level: int, seen: int) -> Iterator[Entry]:
        entry = self._ready.next(Entry(Message(id=""), level, seen, BEFORE_ALL))
        for _ in range(HEAD):
            if entry is None or entry.level != level or not is_placed(entry.place):
                return
            yield entry
            entry = self._ready.next(entry)
