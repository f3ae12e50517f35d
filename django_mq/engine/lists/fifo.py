"""First come, first served."""

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.lists.ordered import RUN_LENGTH, OrderedList

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry

_ORDER: Final = attrgetter("order")


class FifoList(OrderedList):
    """Entries in their own order, which inside one level is place, then arrival."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=_ORDER)

    def add(self, entry: "Entry") -> "Entry | None":
        # The way of nearly every message, without the calls of the general one.
        if self.runs:
            tail = self.runs[-1]
            last = tail[-1]
            in_turn = entry.arrival > last.arrival and entry.place == last.place and entry.level == last.level
            if in_turn and len(tail) < RUN_LENGTH:
                tail.append(entry)
                self._length += 1
                return None
        return super().add(entry)
