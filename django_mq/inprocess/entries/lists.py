"""The orders of a queue's ready entries, by name.

``EntryList`` is the broker's one extension point: a queue works with any class that keeps entries in
one order, and ``register_list`` gives it a name.

Entries are kept in short runs. Nearly every entry is added at the tail and removed at the head. Both
change one end of one short Python list and cost the same for ten entries as for ten million. The few
entries that return out of order are placed by bisection, first among the runs, then inside one.

Positions are sort keys, not links: ``next`` works for an entry that has long been removed, and
finds entries that were added behind it since.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.decisions.last_value import is_outdone
from django_mq.engine.decisions.places import MOST_LEVELS, ORDINARY_PLACE
from django_mq.engine.message import header_text
from django_mq.errors import ListKeyMissing, ListKindTaken, UnknownListKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry


class EntryList(ABC):
    """Ready entries in the order in which they are served.

    The order of two entries never changes, so an entry that was removed and is added
    again stands where it stood. The queue holds its lock around every call.
    """

    @abstractmethod
    def add(self, entry: "Entry") -> "Entry | None":
        """Put an entry in its place; it must not be in the list already.

        Nearly always returns None. Otherwise returns the entry that is replaced: an older one, which is then no
        longer in the list, or ``entry`` itself, which is not added.
        """

    @abstractmethod
    def head(self) -> "Entry | None":
        """Return the entry to serve first; None if the list is empty."""

    @abstractmethod
    def next(self, entry: "Entry") -> "Entry | None":
        """Return the first entry behind ``entry``, which need not be in the list."""

    @abstractmethod
    def remove(self, entry: "Entry") -> bool:
        """Remove an entry; False if it was not in the list."""

    @abstractmethod
    def __iter__(self) -> "Iterator[Entry]":
        """Yield the entries in order; the list must not change meanwhile."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many entries are in the list."""

    def position(self, entry: "Entry") -> Any:
        """Return the sort key of an entry, which never changes; the least is first."""
        return entry.order

    def heads(self) -> "Iterable[Entry]":
        """Return the first entry of each part of the list that is in order of arrival."""
        head = self.head()
        return () if head is None else (head,)

    def least_significant(self) -> "Iterator[Entry]":
        """Return the entries in the order in which a full queue evicts them: the oldest first."""
        return iter(self)

    def value_of(self, message: "Message") -> str | None:  # noqa: ARG002
        """Return the key of which the list keeps the last value; None if the message replaces nothing."""
        return None

    def expect(self, entry: "Entry") -> None:  # noqa: B027
        """Note an entry that has been here and waits for its next attempt. Most lists ignore it."""

    def forget(self, entry: "Entry") -> None:  # noqa: B027
        """Note that the entry has left the queue for good. Most lists ignore it."""


#: Entries in one run. A removal at the head moves the rest of the run: 2 KiB at most.
RUN_LENGTH: Final = 256


class OrderedList(EntryList):
    """A list in ascending order of ``key``, which must be unique and never change."""

    def __init__(self, key: "Callable[[Entry], Any]") -> None:
        self._key = key
        #: No run is empty.
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


_ORDER: Final = attrgetter("order")


class FifoList(OrderedList):
    """Entries by ``order``, which inside one level is place, then arrival."""

    def __init__(self) -> None:
        super().__init__(key=_ORDER)

    def add(self, entry: "Entry") -> "Entry | None":
        # The path of nearly every message, without the calls of the general one.
        if self.runs:
            tail = self.runs[-1]
            last = tail[-1]
            in_turn = entry.arrival > last.arrival and entry.place == last.place and entry.level == last.level
            if in_turn and len(tail) < RUN_LENGTH:
                tail.append(entry)
                self._length += 1
                return None
        return super().add(entry)


class PriorityList(EntryList):
    """A first-in-first-out list per level, from the highest to the lowest (Qpid).

    It always has a list for each of the ten possible levels. A queue of fewer levels leaves
    the others empty, at no cost, and still serves rows that were placed when it had more.
    """

    def __init__(self) -> None:
        self._lines = [FifoList() for _ in range(MOST_LEVELS)]
        #: Bit n is set exactly while list n has entries. A remembered highest level would be wrong after
        #: that level empties while a higher one is skipped.
        self._filled = 0
        self._length = 0

    def add(self, entry: "Entry") -> "Entry | None":
        self._lines[entry.level].add(entry)
        self._filled |= 1 << entry.level
        self._length += 1
        return None

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


#: Entries without the header first; then by its text; then by arrival.
Place = tuple[bool, str, int]
_ARRIVAL: Final = attrgetter("arrival")


class Places(dict["Entry", Place]):
    """The sort keys of entries: stored for those in the list, computed for any other.

    A lookup is no Python call, and a bisection makes some twenty lookups.
    """

    def __init__(self, header: str) -> None:
        super().__init__()
        self._header = header

    def __missing__(self, entry: "Entry") -> Place:
        text = header_text(entry.message, self._header)
        return (text is not None, text or "", entry.arrival)


class SortedList(OrderedList):
    """Entries in ascending order of the text of their header ``key`` (Qpid).

    Texts are compared by code points, as the "C" collation of PostgreSQL and the binary one
    of SQLite do. Numbers are compared as text as well: "10" stands before "9", so pad them
    with zeros. Entries without the header come first; equal ones stand by arrival. Levels and
    places have no effect.
    """

    def __init__(self, key: str) -> None:
        self._places = Places(key)
        super().__init__(key=self._places.__getitem__)
        #: The same entries, the oldest first; made when first needed.
        self._by_arrival: OrderedList | None = None

    def add(self, entry: "Entry") -> "Entry | None":
        self._places[entry] = self._places[entry]  # computed once, and kept
        if self._by_arrival is not None:
            self._by_arrival.add(entry)
        return super().add(entry)

    def remove(self, entry: "Entry") -> bool:
        removed = super().remove(entry)
        if removed:
            del self._places[entry]
        if removed and self._by_arrival is not None:
            self._by_arrival.remove(entry)
        return removed

    def least_significant(self) -> "Iterator[Entry]":
        if self._by_arrival is None:
            self._by_arrival = OrderedList(_ARRIVAL)
            for entry in sorted(self, key=_ARRIVAL):
                self._by_arrival.add(entry)
        return iter(self._by_arrival)


class LastValueList(PriorityList):
    """A priority list in which an entry replaces the older one with the same header ``key`` (Qpid).

    The new value stands in its own place, not where the old one stood. A consumer that holds an older
    value keeps it, and it is discarded when it is returned. The value that arrived
    later is the later one; only a message that stands first because it was due (Artemis)
    counts from the time at which it became ready. Entries without the header are never replaced.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        #: The latest entry of each key until it leaves the queue, with the arrival number that it counts as.
        #: It may be claimed or scheduled, and still replaces an older value that is returned.
        self._latest: dict[str, tuple[Entry, int]] = {}

    def add(self, entry: "Entry") -> "Entry | None":
        value = self.value_of(entry.message)
        if value is None:
            return super().add(entry)
        latest, age = self._latest.get(value, (entry, entry.arrival))
        if latest is not entry:
            if is_outdone(entry.arrival, [age]) and not _has_just_come_due(entry):
                return entry
            age = max(age, entry.arrival)
            self.remove(latest)
        self._latest[value] = entry, age
        super().add(entry)
        return None if latest is entry else latest

    def value_of(self, message: "Message") -> str | None:
        return header_text(message, self._key)

    def expect(self, entry: "Entry") -> None:
        value = self.value_of(entry.message)
        if value is not None:
            self._latest.setdefault(value, (entry, entry.arrival))

    def forget(self, entry: "Entry") -> None:
        value = self.value_of(entry.message)
        if value is not None and self._latest.get(value, (None,))[0] is entry:
            del self._latest[value]


def _has_just_come_due(entry: "Entry") -> bool:
    return entry.place != ORDINARY_PLACE and not entry.claim_number


def make_list(kind: str, *, key: str | None, levels: int) -> "EntryList":
    """Return an empty list of this kind.

    Raises UnknownListKind, and ListKeyMissing for a kind that needs a key and has none.
    """
    factory = _factories.get(kind)
    if factory is None:
        known = ", ".join(sorted(_factories))
        raise UnknownListKind(f"There is no list of the kind {kind!r}; use one of {known}, or register it.")
    return factory(key=key, levels=levels)


def register_list(kind: str, factory: "Callable[..., EntryList]") -> None:
    """Register an order of your own; raises ListKindTaken if the name is in use.

    ``factory`` makes an empty list. It is called with ``key``, the header in the queue's rules or None, and
    ``levels``, the queue's number of levels.
    """
    if kind in _factories:
        raise ListKindTaken(f"There is a list of the kind {kind!r} already; choose another name.")
    _factories[kind] = factory


def _keyed(key: str | None, kind: str) -> str:
    if not key:
        raise ListKeyMissing(f"A list of the kind {kind!r} needs a key: the name of a header.")
    return key


_factories: "Final[dict[str, Callable[..., EntryList]]]" = {
    "fifo": lambda **_: FifoList(),
    "priority": lambda **_: PriorityList(),
    "sorted": lambda key, **_: SortedList(_keyed(key, "sorted")),
    "last_value": lambda key, **_: LastValueList(_keyed(key, "last_value")),
}
