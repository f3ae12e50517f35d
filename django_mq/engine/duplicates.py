"""Which messages were published before: the last so many duplicate ids."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from django_mq.errors import OutOfRange

#: How many ids are remembered if nothing is said.
DEFAULT_SIZE: Final = 20_000


class DuplicateIds:
    """A ring of ids: a new one takes the place of the oldest.

    An id counts from ``add`` on, before its unit of work has ended: the second of two equal
    ids is a duplicate, be they in one unit or in two that are open at once. A unit that is
    rolled back must ``forget`` what it added, and only that. Not safe by itself: the queue's
    lock guards it.
    """

    __slots__ = ("_ids", "size")

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        """Remember ``size`` ids; 0 is none. Raises OutOfRange as ``resize`` does."""
        #: Oldest first. A plain dict would search for its first key among all that have left.
        self._ids: OrderedDict[Hashable, None] = OrderedDict()
        self.size = 0
        self.resize(size)

    def add(self, duplicate_id: Hashable) -> bool:
        """Remember an id; False if it is a duplicate, which does not make it any younger.

        Nothing is a duplicate while the size is 0.
        """
        if duplicate_id in self._ids:
            return False
        self._ids[duplicate_id] = None
        self._overwrite()
        return True

    def _overwrite(self) -> None:
        while len(self._ids) > self.size:
            self._ids.popitem(last=False)

    def forget(self, duplicate_id: Hashable) -> bool:
        """Take an id back, as its message was not published after all; False if it is not known."""
        if duplicate_id not in self._ids:
            return False
        del self._ids[duplicate_id]
        return True

    def clear(self) -> None:
        """Forget every id."""
        self._ids.clear()

    def resize(self, size: int) -> None:
        """Remember so many from now on; the oldest are forgotten if they are too many.

        Raises OutOfRange unless it is a whole number from 0.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise OutOfRange(f"The number of duplicate ids is a whole number from 0, not {size!r}.")
        self.size = size
        self._overwrite()

    def __contains__(self, duplicate_id: Hashable) -> bool:
        return duplicate_id in self._ids

    def __iter__(self) -> Iterator[Hashable]:
        """The ids, the oldest first: added in this order to another ring, they make it equal."""
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def is_over(used_at: float, now: float, seconds: float | None) -> bool:
    """Whether an id that was used then is as good as new: ``seconds`` later, None for never by time."""
    return seconds is not None and now >= used_at + seconds
