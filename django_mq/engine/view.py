"""What a browser has seen of a queue."""

from typing import TYPE_CHECKING

from django_mq.engine.lists.fifo import FifoList

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists.base import EntryList


class View:
    """A browser's way through the ready entries: each is shown once, none is taken.

    An entry that arrives ahead of the browser's position is remembered and shown too; one
    that was given back is not, for the browser has seen it, or has passed it while somebody
    held it. In Qpid a higher-priority arrival makes a browser read again all it had read.
    """

    __slots__ = ("_behind", "_last_seen")

    def __init__(self) -> None:
        self._last_seen: Entry | None = None
        #: New arrivals that stand before the last entry seen; some may be gone again.
        self._behind = FifoList()

    def arrived(self, entry: "Entry") -> None:
        """A ready entry came to stand in the queue."""
        if self._last_seen is not None and not entry.redelivered and entry.order < self._last_seen.order:
            self._behind.add(entry)

    def left(self, entry: "Entry") -> None:
        """An entry left the queue's line."""
        self._behind.remove(entry)

    def next_in(self, ready: "EntryList") -> "Entry | None":
        """The first entry not yet seen; it counts as unseen until ``saw`` is called."""
        if len(self._behind):
            return self._behind.head()
        return ready.head() if self._last_seen is None else ready.next(self._last_seen)

    def saw(self, entry: "Entry") -> None:
        """The entry that ``next_in`` answered was shown."""
        if not self._behind.remove(entry):
            self._last_seen = entry
