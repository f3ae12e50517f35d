"""First come, first served."""

from operator import attrgetter
from typing import Final

from django_mq.engine.lists.ordered import OrderedList

_ORDER: Final = attrgetter("order")


class FifoList(OrderedList):
    """Entries in their own order, which inside one level is place, then arrival."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=_ORDER)
