"""The duplicate ids that a queue remembers."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator

from django_mq.engine.decisions.duplicates import DEFAULT_SIZE, is_over


class DuplicateIds:
    """A ring of duplicate ids: a new one replaces the oldest.

    An id counts from ``add`` on, before its unit of work has ended: the second of two equal
    ids is a duplicate, in one unit or in two that are open at once. A unit that is
    rolled back must ``forget`` the ids that it added, and only those. Guard it with the queue's
    lock.
    """

    def __init__(self, size: int = DEFAULT_SIZE, seconds: float | None = None, *, at_least: bool = False) -> None:
        """Remember ``size`` ids, each for ``seconds``. A size of 0 is none, or with ``seconds`` all of that time.

        ``at_least``: only ``prune`` forgets ids above the size.
        """
        #: Oldest first: which message used the id, and when. A plain dict would search for its first key
        #: among all deleted ones.
        self._ids: OrderedDict[Hashable, tuple[object, float]] = OrderedDict()
        self._at_least = at_least
        self.resize(size, seconds)

    @property
    def remembers_any(self) -> bool:
        """Whether a size or a time is given."""
        return self.size > 0 or self.seconds is not None

    def user_of(self, duplicate_id: Hashable, now: float = 0.0) -> object | None:
        """Return the message that has used an id; None if the id is not remembered."""
        used = self._ids.get(duplicate_id)
        return None if used is None or is_over(used[1], now, self.seconds) else used[0]

    def add(self, duplicate_id: Hashable, now: float = 0.0, *, user: object = True) -> bool:
        """Remember an id; False if it is a duplicate, which does not make it any younger.

        Without a size and a time, nothing is a duplicate.
        """
        if self.user_of(duplicate_id, now) is not None:
            return False
        if self.remembers_any:
            self._ids.pop(duplicate_id, None)
            self._ids[duplicate_id] = user, now
        if not self._at_least:
            self._overwrite()
        return True

    def _overwrite(self) -> None:
        while len(self._ids) > self.size and (self.size or self.seconds is None):
            self._ids.popitem(last=False)

    def prune(self, now: float) -> int:
        """Forget the ids older than ``seconds``, and the oldest above the size; return how many."""
        before = len(self._ids)
        for duplicate_id in [each for each, used in self._ids.items() if is_over(used[1], now, self.seconds)]:
            del self._ids[duplicate_id]
        self._overwrite()
        return before - len(self._ids)

    def forget(self, duplicate_id: Hashable) -> bool:
        """Forget the id of a message that was not published after all; False if it is not known."""
        return self._ids.pop(duplicate_id, None) is not None

    def resize(self, size: int, seconds: float | None = None) -> None:
        """Use another size and time from now on; forget the oldest above the size."""
        self.size, self.seconds = size, seconds
        if not self._at_least:
            self._overwrite()

    def __iter__(self) -> Iterator[Hashable]:
        """Yield the ids, the oldest first: added in this order, they make an equal ring."""
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
