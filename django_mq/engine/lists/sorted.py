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


class SortedList(OrderedList):
    """Entries in ascending order of the text of their header ``key`` (Qpid).

    Texts are compared by code points, as the "C" collation of PostgreSQL and the binary one
    of SQLite do. Numbers are compared as text as well: "10" stands before "9", so pad them
    with zeros. Entries without the header come first, equals stand by arrival. Levels and
    places mean nothing here.
    """

    __slots__ = ("_by_arrival", "_header", "_places")

    def __init__(self, key: str) -> None:
        super().__init__(key=self._place)
        self._header = key
        #: Of the entries in the list: a bisection asks for some twenty of them.
        self._places: dict[Entry, Place] = {}
        #: The same entries, the oldest first; made when it is first asked for.
        self._by_arrival: OrderedList | None = None

    def _place(self, entry: "Entry") -> Place:
        return self._places.get(entry) or self._compute_place(entry)

    def _compute_place(self, entry: "Entry") -> Place:
        text = header_text(entry.message, self._header)
        return (text is not None, text or "", entry.arrival)

    def add(self, entry: "Entry") -> "Entry | None":
        self._places[entry] = self._compute_place(entry)
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
