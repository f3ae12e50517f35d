"""Which messages were published before: the last so many duplicate ids."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

from django_mq.errors import DuplicateMessage

#: How many ids are remembered if nothing is said.
DEFAULT_SIZE: Final = 20_000


def used_before(queue: str, duplicate_id: object, user: object) -> DuplicateMessage:
    """Why a message with a duplicate id that was used is refused."""
    return DuplicateMessage(
        f"Duplicate id {duplicate_id!r} was used in queue {queue!r} before, by message {user}."
    )


def id_taken(queue: str, message_id: object) -> DuplicateMessage:
    """Why a message with an id that is in the queue is refused."""
    return DuplicateMessage(f"Message {message_id} is already in queue {queue!r}.")


def id_twice(message_id: object) -> DuplicateMessage:
    """Why messages are refused of which two have the same id."""
    return DuplicateMessage(f"Two of the messages have the id {message_id}.")


class DuplicateIds:
    """A ring of ids: a new one takes the place of the oldest.

    An id counts from ``add`` on, before its unit of work has ended: the second of two equal
    ids is a duplicate, be they in one unit or in two that are open at once. A unit that is
    rolled back must ``forget`` what it added, and only that. Not safe by itself: the queue's
    lock guards it.
    """

    __slots__ = ("_at_least", "_ids", "seconds", "size")

    def __init__(self, size: int = DEFAULT_SIZE, seconds: float | None = None, *, at_least: bool = False) -> None:
        """Remember ``size`` ids, each for ``seconds``; a size of 0 is none, or as many as come in that time.

        ``at_least``: ids above the size are forgotten by ``prune`` only.
        """
        #: Oldest first: which message used the id, and when. A plain dict would search for its first key among
        #: all that have left.
        self._ids: OrderedDict[Hashable, tuple[object, float]] = OrderedDict()
        self._at_least = at_least
        self.size = 0
        self.seconds: float | None = None
        self.resize(size, seconds)

    @property
    def remembers_any(self) -> bool:
        """Whether a size or a time is given."""
        return self.size > 0 or self.seconds is not None

    def user_of(self, duplicate_id: Hashable, now: float = 0.0) -> object | None:
        """Which message has used an id that is remembered; None if it is as good as new."""
        used = self._ids.get(duplicate_id)
        return None if used is None or is_over(used[1], now, self.seconds) else used[0]

    def add(self, duplicate_id: Hashable, now: float = 0.0, *, user: object = True) -> bool:
        """Remember an id; False if it is a duplicate, which does not make it any younger.

        Nothing is a duplicate where neither a size nor a time is given.
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
        """Forget the ids whose time is over, and the oldest that are too many; how many."""
        before = len(self._ids)
        for duplicate_id in [each for each, used in self._ids.items() if is_over(used[1], now, self.seconds)]:
            del self._ids[duplicate_id]
        self._overwrite()
        return before - len(self._ids)

    def forget(self, duplicate_id: Hashable) -> bool:
        """Take an id back, as its message was not published after all; False if it is not known."""
        return self._ids.pop(duplicate_id, None) is not None

    def resize(self, size: int, seconds: float | None = None) -> None:
        """Remember so many from now on, for so long; the oldest are forgotten if they are too many."""
        self.size, self.seconds = size, seconds
        if not self._at_least:
            self._overwrite()

    def __iter__(self) -> Iterator[Hashable]:
        """The ids, the oldest first: added in this order to another ring, they make it equal."""
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def is_over(used_at: float, now: float, seconds: float | None) -> bool:
    """Whether an id that was used then is as good as new: ``seconds`` later, None for never by time."""
    return seconds is not None and now >= used_at + seconds
