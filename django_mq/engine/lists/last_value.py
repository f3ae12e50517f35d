"""Of the messages with one key, only the latest."""

from typing import TYPE_CHECKING, Any

from django_mq.engine.groups.base import header_text
from django_mq.engine.last_value import is_outdone
from django_mq.engine.lists.base import EntryList
from django_mq.engine.lists.fifo import FifoList
from django_mq.engine.places import ORDINARY_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message


class LastValueList(EntryList):
    """A list in which an entry replaces the older one of the same header ``key`` (Qpid).

    The new value stands where ``inner`` puts it, not where the old one stood. An older value
    that somebody holds stays with them, and is worthless when it is given back. What arrived
    later is the later value; only a message that stands first because it was due (Artemis)
    counts from the time at which it came to stand here.

    Entries without the header are never replaced. ``inner`` gives the order, and must keep
    all it is given; first come, first served if none is named.
    """

    __slots__ = ("_inner", "_key", "_latest")

    def __init__(self, key: str, inner: EntryList | None = None) -> None:
        self._key = key
        self._inner = FifoList() if inner is None else inner
        #: By key, until it is gone for good: it may be claimed or scheduled, and still beats
        #: an older value that is given back. Each with the arrival number that it counts as.
        self._latest: dict[str, tuple[Entry, int]] = {}

    def add(self, entry: "Entry") -> "Entry | None":
        value = header_text(entry.message, self._key)
        if value is None:
            return self._inner.add(entry)
        latest, age = self._latest.get(value, (entry, entry.arrival))
        if latest is not entry:
            if is_outdone(entry.arrival, [age]) and not _has_just_come_due(entry):
                return entry
            age = max(age, entry.arrival)
            self._inner.remove(latest)
        self._latest[value] = entry, age
        self._inner.add(entry)
        return None if latest is entry else latest

    def value_of(self, message: "Message") -> str | None:
        return header_text(message, self._key)

    def forget(self, entry: "Entry") -> None:
        value = header_text(entry.message, self._key)
        if value is not None and self._latest.get(value, (None,))[0] is entry:
            del self._latest[value]
        self._inner.forget(entry)

    def head(self) -> "Entry | None":
        return self._inner.head()

    def next(self, entry: "Entry") -> "Entry | None":
        return self._inner.next(entry)

    def remove(self, entry: "Entry") -> bool:
        return self._inner.remove(entry)

    def __iter__(self) -> "Iterator[Entry]":
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def position(self, entry: "Entry") -> Any:
        return self._inner.position(entry)

    def heads(self) -> "Iterable[Entry]":
        return self._inner.heads()

    def least_significant(self) -> "Iterator[Entry]":
        return self._inner.least_significant()


def _has_just_come_due(entry: "Entry") -> bool:
    return entry.place != ORDINARY_PLACE and not entry.claim_number
