"""In order of a header, whatever came first."""

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.groups.base import header_text
from django_mq.engine.lists.ordered import OrderedList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.entry import Entry

#: Without the header first; then by its text; then by arrival.
Place = tuple[bool, str, int]

_ARRIVAL: Final = attrgetter("arrival")


class Places(dict["Entry", Place]):
    """Where entries stand: known for those in the list, computed for any other.

    Looking one up is no Python call, and a bisection looks up some twenty.
    """

    __slots__ = ("_header",)

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
    with zeros. Entries without the header come first, equals stand by arrival. Levels and
    places mean nothing here.
    """

    __slots__ = ("_by_arrival", "_places")

    def __init__(self, key: str) -> None:
        self._places = Places(key)
        super().__init__(key=self._places.__getitem__)
        #: The same entries, the oldest first; made when it is first asked for.
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
