"""Claims: what is ready now, in strict order, over one queue or several."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.arbiter import LEFT_SECONDS
from django_mq.engine.claim import fitting, left_behind, limit_of
from django_mq.errors import SessionLost
from django_mq.stores import refusals
from django_mq.stores.memory.row import row_of
from django_mq.stores.memory.ruling import awarded, record_of, take_seats
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
        entries, left = self._entries(queues, records, session, request)
        seen = _first_ready(entries, request)
        line = ((row.entry.suspect, len(row.message.body)) for row in seen)
        chosen = seen[: fitting(line, request.slots, request.max_bytes)]
        ruled = any(record.has_rules for record in records.values())
        take_seats(session, chosen, records)
        times = [_seconds_until_due(queues, now)]
        if left:
            times.append(LEFT_SECONDS)
        return Exchange(
            claimed=[self._lease(row, session, now) for row in chosen],
            left=left_behind(request, [row.queue.name for row in chosen], len(seen)),
            next_due_seconds=min((time for time in times if time is not None), default=None),
            ruled=ruled,
        )

    @locked
    def subscribe(self, session_id: int, name: str) -> None:
        session, queue = self.broker.sessions.get(session_id), self._existing(name)
        if session is None:
            raise SessionLost
        if queue.settings.exclusive:
            if queue.seated - {session_id}:
                raise refusals.exclusive(name)
            session.consumer_of(queue)  # so that it leaves the queue with its end
            queue.seated.add(session_id)

    def _entries(
        self,
        queues: list[BrokerQueue],
        records: dict[str, QueueRecord],
        session: WorkerSession,
        request: ClaimRequest,
    ) -> tuple[list[Iterable[Entry]], bool]:
        """Return what the session may have of each queue, in order, and whether it left some to better ones."""
        found: list[Iterable[Entry]] = []
        left = False
        for queue in queues:
            record = records[queue.name]
            if record.paused:
                found.append(())
            elif not record.has_rules:
                found.append(islice(queue.engine.browse(), limit_of(request, queue.name)))
            else:
                award = awarded(self.broker, queue, record, session, limit_of(request, queue.name))
                found.append([candidate.entry for candidate in award.chosen])
                left = left or award.left
        return found, left

    @staticmethod
    def _lease(row: Row, session: WorkerSession, now: datetime) -> Claimed:
        row.queue.engine.take(row.entry, session.consumer_of(row.queue))
        row.session_id, row.claimed_at, row.ended = session.number, now, None
        return row.claimed(now)


def _first_ready(entries: list[Iterable[Entry]], request: ClaimRequest) -> list[Row]:
    """Return the first rows of all queues together, as many as there is credit."""
    walks = [_ranked(found, position, listed=request.listed) for position, found in enumerate(entries)]
    return [row for _, row in islice(merge(*walks, key=itemgetter(0)), request.credit)]


def _ranked(entries: Iterable[Entry], position: int, *, listed: bool) -> Iterator[tuple[Rank, Row]]:
    """Yield the rows of a queue's entries in order, each with its rank; the ranks rise."""
    leisure = -9
    for turn, entry in enumerate(entries):
        leisure = max(leisure, -entry.message.priority)
        yield Rank(position if listed else 0, leisure, turn, position), row_of(entry)


def _seconds_until_due(queues: list[BrokerQueue], now: datetime) -> float | None:
    times = [due for queue in queues if (due := queue.engine.next_due()) is not None]
    return max(0.0, min(times) - now.timestamp()) if times else None
