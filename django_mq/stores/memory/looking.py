"""Looking: counts and browsing, nothing taken."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from django_mq.engine.states import CLAIMED, DEAD, READY, SCHEDULED
from django_mq.stores.memory.row import entry_of, row_of
from django_mq.stores.memory.runner import Runner, locked
from django_mq.stores.records import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import Browsed


class Looking(Runner):
    """Count and browse."""

    @locked
    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        queues = self.broker.queues
        wanted = sorted(queues) if names is None else sorted(queues.keys() & set(names))
        return {name: self._counts_of(queues[name], limit) for name in wanted}

    def _counts_of(self, queue: BrokerQueue, limit: int) -> Counts:
        in_state = queue.engine.counts()
        scheduled, ready, claimed, dead = (
            min(limit, in_state[state]) for state in (SCHEDULED, READY, CLAIMED, DEAD)
        )
        age, due = self._oldest_ready_seconds(queue), min(limit, self._due(queue))
        return Counts(scheduled, ready, claimed, dead, age, due)

    def _due(self, queue: BrokerQueue) -> int:
        now = self._now().timestamp()
        return sum(entry.due_at is not None and entry.due_at <= now for entry in queue.engine.scheduled())

    def _oldest_ready_seconds(self, queue: BrokerQueue) -> float | None:
        """Return how long the first of a level has been waiting, or the first that is due and not yet promoted."""
        since = [row_of(entry).ready_at.timestamp() for entry in queue.engine.heads()]
        now, due = self._now().timestamp(), queue.engine.next_due()
        if due is not None and due <= now:
            since.append(due)
        return now - min(since) if since else None

    @locked
    def occupied(self) -> list[int]:
        return [queue.number for queue in self.broker.queues.values() if queue.engine.statistics.depth]

    def count_unknown(self, *, limit: int) -> int:  # noqa: ARG002 - as every store
        return 0  # the engine makes no other

    @locked
    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        if queue is None:
            return []
        position = queue.engine.position
        beyond = None if after is None else position(entry_of(after))
        entries = (row.entry for row in queue.rows if row.state in states)
        chosen = (entry for entry in entries if beyond is None or position(entry) > beyond)
        return [row_of(entry).browsed() for entry in nsmallest(limit, chosen, key=position)]

    @locked
    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        rows = [] if queue is None else [row for row in queue.rows if row.id > after]
        return [row.browsed() for row in nsmallest(limit, rows, key=lambda row: row.id)]

    @locked
    def last_arrival(self) -> int:
        return max(self.broker.rows, default=0)

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        """Nobody: what is written is there."""
        return frozenset()

    def last_finished(self) -> int:
        """None: nobody reads this history by numbers."""
        return 0

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        """Nobody, as above."""
        return frozenset()
