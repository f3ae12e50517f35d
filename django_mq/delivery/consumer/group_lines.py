"""The lines of messages of one group that a worker has claimed."""

from __future__ import annotations

from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class GroupLines(Generic[Item]):
    """The messages that one worker has claimed of the groups of a queue: one of a group begins, others wait.

    When a message goes back to the queue, its group is closed: what is behind it must go back, too, or it would
    overtake. The group may be opened when the queue has them all. Not safe for threads.
    """

    def __init__(self) -> None:
        #: The groups to which nothing can be added.
        self.closed: set[str] = set()
        # A group is here while one of its messages has begun, or can begin.
        self._waiting: dict[str, list[tuple[Any, Item]]] = {}
        #: By group, how many of its messages have begun together with the one that could begin.
        self._together: dict[str, int] = {}
        self._size = 0

    def __len__(self) -> int:
        """Return how many messages wait."""
        return self._size

    def enter(self, group: str, order: Any, item: Item) -> bool:
        """Return whether the message can begin; otherwise ``leave`` returns it in its order. Orders are unique."""
        if group not in self._waiting:
            self._waiting[group] = []
            return True
        heappush(self._waiting[group], (order, item))
        self._size += 1
        return False

    def behind(self, group: str) -> list[Item]:
        """Return the waiting messages of a group, in order."""
        return [item for _, item in sorted(self._waiting.get(group, ()), key=itemgetter(0))]

    def join(self, group: str) -> None:
        """Let the next message begin together with the one that could begin."""
        heappop(self._waiting[group])
        self._size -= 1
        self._together[group] = self._together.get(group, 0) + 1

    def leave(self, group: str) -> Item | None:
        """Note that a message that had begun is finished; return the next one if that can begin now."""
        if group in self._together:
            self._together[group] -= 1
            if not self._together[group]:
                del self._together[group]
            return None
        line = self._waiting.get(group)
        if line:
            self._size -= 1
            return heappop(line)[1]
        self._waiting.pop(group, None)
        return None

    def close(self, group: str) -> list[Item]:
        """Close the group; take out, and return, its waiting messages, in order."""
        self.closed.add(group)
        return self._drop(group)

    def _drop(self, group: str) -> list[Item]:
        dropped = self.behind(group)
        self._size -= len(dropped)
        if dropped:
            self._waiting[group].clear()
        return dropped

    def empty(self) -> list[Item]:
        """Take out, and return, the waiting messages of all groups, in order."""
        return [item for group in self._waiting for item in self._drop(group)]
