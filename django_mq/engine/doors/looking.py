"""The door of those who only look."""

from typing import TYPE_CHECKING, Any

from django_mq.engine.doors.timekeeping import Timekeeping
from django_mq.engine.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.duplicates import DuplicateIds
    from django_mq.engine.entry import Entry
    from django_mq.engine.states import State
    from django_mq.engine.statistics import Statistics


class Looking(Timekeeping):
    """Says what is here, and changes nothing."""

    def browse(self) -> "Iterator[Entry]":
        """The ready entries in order; takes nothing, and bears changes while it goes on."""
        view = View(self._dispatch.ready)
        while True:
            with self.lock:
                entry = view.next_in(self._dispatch.ready)
            if entry is None:
                return
            view.saw(entry)
            yield entry

    def position(self, entry: "Entry") -> Any:
        """What sorts an entry among those of this queue, also one that is not here any more."""
        return self._dispatch.ready.position(entry)

    def heads(self) -> "list[Entry]":
        """The first ready entry of each level that has one, the highest level first."""
        with self.lock:
            return list(self._dispatch.ready.heads())

    def scheduled(self) -> "list[Entry]":
        """The scheduled entries in the order they become due."""
        with self.lock:
            return list(self._calendar.schedule)

    @property
    def priorities_differ(self) -> bool:
        """Whether its consumers have different priorities."""
        return self._dispatch.consumers.priorities_differ

    def consumers(self) -> "list[Consumer]":
        """Who is subscribed, the oldest first."""
        with self.lock:
            return list(self._dispatch.consumers.all)

    def live_consumers(self) -> "frozenset[Consumer]":
        """The consumers that have a slot, where slots are few."""
        with self.lock:
            return frozenset() if self._dispatch.live is None else self._dispatch.live.live()

    def group_owners(self) -> "dict[str, Consumer]":
        """The message groups that have an owner."""
        with self.lock:
            return {} if self._dispatch.groups is None else self._dispatch.groups.owners()

    def group_owner(self, group: str) -> "Consumer | None":
        """Who owns one message group; None if nobody does."""
        with self.lock:
            return None if self._dispatch.groups is None else self._dispatch.groups.owner_of(group)

    @property
    def duplicate_ids(self) -> "DuplicateIds":
        """The ids it takes for duplicates, for a store that keeps them over a restart."""
        return self._duplicates

    def counts(self) -> "dict[State, int]":
        """How many entries are scheduled, ready (held ones included), claimed and dead."""
        with self.lock:
            return self._contents.counts()

    @property
    def statistics(self) -> "Statistics":
        """The counters; read them, and reset them with ``reset_statistics`` only."""
        return self._contents.statistics

    def reset_statistics(self) -> None:
        """Count from zero. What is here is the most there has been."""
        with self.lock:
            self._contents.statistics.reset(len(self._dispatch.ready))

    @property
    def flow_stopped(self) -> bool:
        """Whether the queue has told its producers to wait."""
        return self._room.flow.stopped
