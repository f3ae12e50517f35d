"""The kinds of list by name, and the door for a list of one's own."""

from typing import TYPE_CHECKING, Final, Protocol

from django_mq.engine.lists.fifo import FifoList
from django_mq.engine.lists.last_value import LastValueList
from django_mq.engine.lists.priority import PriorityList
from django_mq.engine.lists.sorted import SortedList
from django_mq.errors import ListKeyMissing, ListKindTaken, UnknownListKind

if TYPE_CHECKING:
    from django_mq.engine.lists.base import EntryList


class ListFactory(Protocol):
    """Makes an empty list for one queue."""

    def __call__(self, *, key: str | None, levels: int) -> "EntryList":
        """``key`` is the header the queue names for it, if any; ``levels`` how many it has."""


def make_list(kind: str, *, key: str | None, levels: int) -> "EntryList":
    """An empty list of this kind.

    Raises UnknownListKind, and ListKeyMissing for a kind that needs a key and has none.
    """
    factory = _factories.get(kind)
    if factory is None:
        known = ", ".join(sorted(_factories))
        raise UnknownListKind(f"There is no list of the kind {kind!r}; use one of {known}, or register it.")
    return factory(key=key, levels=levels)


def register_list(kind: str, factory: ListFactory) -> None:
    """Let queues stand in an order of your own; raises ListKindTaken if the name is in use."""
    if kind in _factories:
        raise ListKindTaken(f"There is a list of the kind {kind!r} already; choose another name.")
    _factories[kind] = factory


def _fifo(*, key: str | None, levels: int) -> FifoList:  # noqa: ARG001
    return FifoList()


def _priority(*, key: str | None, levels: int) -> PriorityList:  # noqa: ARG001
    return PriorityList()


def _sorted(*, key: str | None, levels: int) -> SortedList:  # noqa: ARG001
    return SortedList(_needed(key, "sorted"))


def _last_value(*, key: str | None, levels: int) -> LastValueList:
    return LastValueList(_needed(key, "last_value"), PriorityList() if levels > 1 else FifoList())


def _needed(key: str | None, kind: str) -> str:
    if not key:
        raise ListKeyMissing(f"A list of the kind {kind!r} needs a key: the name of a header.")
    return key


_factories: Final[dict[str, ListFactory]] = {
    "fifo": _fifo,
    "priority": _priority,
    "sorted": _sorted,
    "last_value": _last_value,
}
