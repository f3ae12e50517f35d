"""Duplicate ids: which messages were published before."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from django_mq.errors import DuplicateMessage

#: How many ids are remembered by default.
DEFAULT_SIZE: Final = 20_000


def used_before(queue: str, duplicate_id: object, user: object) -> DuplicateMessage:
    """Return the error for a message with a duplicate id that was used before."""
    return DuplicateMessage(
        f"Duplicate id {duplicate_id!r} was used in queue {queue!r} before, by message {user}."
    )


def id_taken(queue: str, message_id: object) -> DuplicateMessage:
    """Return the error for a message with an id that is in the queue already."""
    return DuplicateMessage(f"Message {message_id} is already in queue {queue!r}.")


def id_twice(message_id: object) -> DuplicateMessage:
    """Return the error for messages of which two have the same id."""
    return DuplicateMessage(f"Two of the messages have the id {message_id}.")


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


def is_over(used_at: float, now: float, seconds: float | None) -> bool:
    """Whether an id used at ``used_at`` is forgotten after ``seconds``; None: not by time."""
    return seconds is not None and now >= used_at + seconds
