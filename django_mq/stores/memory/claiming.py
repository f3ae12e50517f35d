"""Claims: the facts about a queue and its sessions, of which the engine's arbiter decides, and the lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.arbiter import LEFT_SECONDS, award, situation_of
from django_mq.engine.claim import fitting, left_behind, limit_of
from django_mq.engine.merge import merged
from django_mq.engine.states import CLAIMED
from django_mq.errors import SessionLost
from django_mq.stores import refusals
from django_mq.stores.memory.row import row_of
from django_mq.stores.memory.runner import Runner, locked
from django_mq.stores.records import Exchange

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.engine.arbiter import Award, Situation, Subscription
    from django_mq.engine.entry import Entry
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import Claimed, ClaimRequest, QueueRecord


class Candidate(NamedTuple):
    """A ready row, as the arbiter sees it."""

    row: Row
    suspect: bool
    group: str | None
    owner: int | None


class Head(NamedTuple):
    """What the session may have of one queue."""

    queue: BrokerQueue
    situation: Situation
    award: Award[Candidate]


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
        records = {queue: self.broker.record_of(queue) for queue in queues}
        limits = {queue: limit_of(request, queue.name) for queue, record in records.items() if not record.paused}
        heads = [self._head(queue, records[queue], session, limit) for queue, limit in limits.items()]
        seen = _best(heads, request)
        line = ((item.suspect, len(item.row.message.body)) for _, item in seen)
        chosen = seen[: fitting(line, request.slots, request.max_bytes)]
        times = [_seconds_until_due(queues, now)]
        if any(head.award.left for head in heads):
            times.append(LEFT_SECONDS)
        return Exchange(
            claimed=[_leased(head, item, session, now) for head, item in chosen],
            left=left_behind(request, [head.queue.name for head, _ in chosen], len(seen)),
            next_due_seconds=min((time for time in times if time is not None), default=None),
            ruled=any(record.has_rules for record in records.values()),
        )

    @locked
    def subscribe(self, session_id: int, name: str) -> None:
        session, queue = self.broker.sessions.get(session_id), self._existing(name)
        if session is None:
            raise SessionLost
        if queue.settings.exclusive and queue.in_slots() - {session_id}:
            raise refusals.exclusive(name)
        consumer = session.consumer_of(queue)  # so that it leaves the queue with its end
        if queue.settings.exclusive:
            queue.engine.take_slot(consumer)

    def _head(self, queue: BrokerQueue, record: QueueRecord, session: WorkerSession, credit: int) -> Head:
        situation = situation_of(
            record,
            session.number,
            in_slots=queue.in_slots(),
            claimed=queue.engine.counts()[CLAIMED],
            waiting=_waiting_groups(queue) if record.has_groups else frozenset(),
            subscriptions=self._subscriptions(queue, session) if record.priorities_differ else (),
        )
        candidates = (_candidate(queue, entry) for entry in queue.engine.browse())
        return Head(queue, situation, award(candidates, session.number, credit, situation))

    def _subscriptions(self, queue: BrokerQueue, session: WorkerSession) -> list[Subscription]:
        now = self._now()
        living = [other for other in self.broker.sessions.values() if other.deadline > now or other is session]
        return [told for other in living for told in other.subscriptions(queue)]


def _waiting_groups(queue: BrokerQueue) -> frozenset[str]:
    keeping = (row_of(entry).message.group_key for entry in queue.engine.everything() if entry.keeps_group)
    return frozenset(group for group in keeping if group is not None)


def _candidate(queue: BrokerQueue, entry: Entry) -> Candidate:
    row = row_of(entry)
    group = row.message.group_key
    return Candidate(row, entry.suspect, group, None if group is None else queue.owner_of(group))


def _best(heads: list[Head], request: ClaimRequest) -> list[tuple[Head, Candidate]]:
    """Return the first messages of all queues together, as many as there is credit."""
    found = [[((head, item), item.row.message.priority) for item in head.award.chosen] for head in heads]
    return merged(found, listed=request.listed)[: request.credit]


def _leased(head: Head, item: Candidate, session: WorkerSession, now: datetime) -> Claimed:
    """Lease a message to the session, and note what belongs to the session from now on."""
    row, queue = item.row, head.queue
    queue.engine.take(row.entry, session.consumer_of(queue))
    row.session_id, row.claimed_at, row.ended = session.number, now, None
    return row.claimed(now)


def _seconds_until_due(queues: list[BrokerQueue], now: datetime) -> float | None:
    times = [due for queue in queues if (due := queue.engine.next_due()) is not None]
    return max(0.0, min(times) - now.timestamp()) if times else None
