"""What a session may have of a queue with rules. The broker's lock is every queue's turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.arbiter import Situation, award, rivals_of
from django_mq.engine.states import CLAIMED, SCHEDULED
from django_mq.stores.memory.row import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django_mq.engine.arbiter import Award, Rival
    from django_mq.engine.entry import Entry
    from django_mq.stores.memory.broker import Broker
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import QueueRecord


def record_of(broker: Broker, queue: BrokerQueue, now: datetime) -> QueueRecord:
    """Return the queue's record, with what the consumers' heartbeats say."""
    told = [
        info.priority
        for session in broker.sessions.values()
        if session.heartbeat is not None
        for info in session.heartbeat.consumers
        if info.queue_name == queue.name
    ]
    return queue.record(now, priorities_differ=len(set(told)) > 1)


class Candidate(NamedTuple):
    """A ready entry, whether it is suspect, its group, and the session that owns the group."""

    entry: Entry
    suspect: bool
    group: str | None
    owner: int | None


def awarded(
    broker: Broker, queue: BrokerQueue, record: QueueRecord, session: WorkerSession, credit: int
) -> Award[Candidate]:
    """Return which ready entries the session may have, in order, and whether better sessions were left some."""
    candidates = (_candidate(queue, entry) for entry in queue.engine.browse())
    return award(candidates, session.number, credit, _situation(broker, queue, record, session))


def _candidate(queue: BrokerQueue, entry: Entry) -> Candidate:
    row = row_of(entry)
    group = row.message.group_key
    return Candidate(entry, entry.suspect, group, None if group is None else queue.owners.get(group))


def _situation(broker: Broker, queue: BrokerQueue, record: QueueRecord, session: WorkerSession) -> Situation:
    room = None if record.max_in_flight is None else record.max_in_flight - queue.engine.counts()[CLAIMED]
    return Situation(
        slots=record.seats,
        in_slots=frozenset(queue.seated),
        in_flight=room,
        grouped=record.has_groups,
        waiting=_waiting_groups(queue) if record.has_groups else frozenset(),
        rivals=_rivals(broker, queue, session) if record.priorities_differ else (),
    )


def _rivals(broker: Broker, queue: BrokerQueue, session: WorkerSession) -> list[Rival]:
    now = broker.now()
    living = [other for other in broker.sessions.values() if other.deadline > now or other is session]
    return rivals_of(session.number, [told for other in living for told in other.subscriptions(queue)])


def _waiting_groups(queue: BrokerQueue) -> frozenset[str]:
    waiting = (row.message.group_key for row in queue.rows if _keeps_others_waiting(row.entry))
    return frozenset(group for group in waiting if group is not None)


def take_seats(session: WorkerSession, chosen: Iterable[Row], records: dict[str, QueueRecord]) -> None:
    """Note what belongs to the session from now on: seats in queues, and groups that stay with it."""
    for row in chosen:
        record = records[row.queue.name]
        if record.seats is not None:
            row.queue.seated.add(session.number)
        if record.groups_stay and row.message.group_key is not None:
            row.queue.owners[row.message.group_key] = session.number


def _keeps_others_waiting(entry: Entry) -> bool:
    """Whether the others of its group wait for it: it is claimed, or has failed and waits to be tried again."""
    return entry.state is CLAIMED or (entry.state is SCHEDULED and entry.redelivered)
