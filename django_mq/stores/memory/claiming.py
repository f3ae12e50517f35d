"""Claims: what is ready now, in strict order, over one queue or several."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from django_mq.errors import SessionLost
from django_mq.stores.memory.broker import row_of
from django_mq.stores.memory.ruling import allowed, record_of, take_seats
from django_mq.stores.memory.runner import Runner, locked
from django_mq.stores.records import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from django_mq.engine.entry import Entry
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import Claimed, ClaimRequest, QueueRecord


class Rank(NamedTuple):
    """Where a message stands among those of several queues; least first.

    ``listing`` is the queue's position where the list is strict, else 0. ``leisure`` is the
    priority negated, the least urgent at or before the message in its queue, so that no
    queue's own order is broken. ``turn`` lets queues of equal heads take turns.
    """

    listing: int
    leisure: int
    turn: int
    position: int


class Claiming(Runner):
    """Promote what is due, then lease in order."""

    @locked
    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        session = self.broker.sessions.get(session_id)
        if session is None:
            raise SessionLost
        # One moment for all of it: what becomes due meanwhile must not come in between.
        now = self._now()
        named = (self.broker.queues.get(name) for name in request.queues)
        queues = [queue for queue in named if queue is not None]
        for queue in queues:
            queue.engine.promote(now.timestamp())
        records = {queue.name: record_of(self.broker, queue, now) for queue in queues}
        seen = self._first_ready(queues, records, session, request, now)
        chosen = _deliverable(seen, request.slots)
        ruled = any(record.has_rules for record in records.values())
        take_seats(session, chosen, records)
        return Exchange(
            claimed=[self._lease(row, session, now, first=not ruled) for row in chosen],
            more=_may_have_more(seen, chosen, request),
            next_due_seconds=_seconds_until_due(queues, now),
            ruled=ruled,
        )

    def _first_ready(
        self,
        queues: list[BrokerQueue],
        records: dict[str, QueueRecord],
        session: WorkerSession,
        request: ClaimRequest,
        now: datetime,
    ) -> list[Row]:
        """Return the first ready rows of all queues together, as many as there is credit."""
        walks = [
            _ranked(
                allowed(self.broker, queue, records[queue.name], session, now), position, listed=request.listed
            )
            for position, queue in enumerate(queues)
            if not queue.is_paused(now)
        ]
        return [row for _, row in islice(merge(*walks, key=itemgetter(0)), request.credit)]

    def _lease(self, row: Row, session: WorkerSession, now: datetime, *, first: bool) -> Claimed:
        """Have the engine deliver this row's entry, which is the first of its queue where no rules are."""
        consumer = session.consumer_of(row.queue)
        if first:
            row.queue.engine.deliver(consumer, now.timestamp())
        else:
            row.queue.engine.take(row.entry, consumer)
        self.broker.expiring.remove(row.entry)
        row.session_id, row.claimed_at = session.number, now
        return row.claimed(now)


def _ranked(entries: Iterable[Entry], position: int, *, listed: bool) -> Iterator[tuple[Rank, Row]]:
    """Yield the rows of a queue's entries in order, each with its rank; the ranks rise."""
    leisure = -9
    for turn, entry in enumerate(entries):
        leisure = max(leisure, -entry.message.priority)
        yield Rank(position if listed else 0, leisure, turn, position), row_of(entry)


def _deliverable(seen: list[Row], slots: int) -> list[Row]:
    """Cut the batch before a suspect, which is delivered alone, and only into a free slot."""
    if seen and seen[0].suspect:
        return seen[:1] if slots > 0 else []
    first = next((index for index, row in enumerate(seen) if row.suspect), len(seen))
    return seen[:first]


def _may_have_more(seen: list[Row], chosen: list[Row], request: ClaimRequest) -> bool:
    """A claim cut by its limit, or before a suspect, has left something behind."""
    if not chosen:
        return False
    return len(seen) >= request.credit or len(chosen) < len(seen)


def _seconds_until_due(queues: list[BrokerQueue], now: datetime) -> float | None:
    times = [due for queue in queues if (due := queue.engine.next_due()) is not None]
    return max(0.0, min(times) - now.timestamp()) if times else None
