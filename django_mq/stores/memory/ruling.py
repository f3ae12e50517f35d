"""What a session may have of a queue with rules. The broker's lock is every queue's turn."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from django_mq.engine.states import CLAIMED, SCHEDULED
from django_mq.stores.memory.broker import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

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


def left_to_better(broker: Broker, queue: BrokerQueue, session: WorkerSession, now: datetime) -> int:
    """How many of the first messages consumers of higher priority elsewhere have credit for."""
    mine = session.priority_in(queue)
    better = [
        other for other in broker.sessions.values() if other.deadline > now and other.priority_in(queue) > mine
    ]
    return sum(max(0, other.credit_in(queue) - _used_by(other, queue)) for other in better)


def allowed(queue: BrokerQueue, record: QueueRecord, session: WorkerSession, left: int) -> Iterator[Entry]:
    """Yield the ready entries that the session may have, in order, those left to others passed over."""
    if not record.has_rules:
        return queue.engine.browse()
    found = _free_groups(queue, session) if record.has_groups else queue.engine.browse()
    room = _room(queue, record, session)
    return islice(found, left, None if room is None else left + room)


def take_seats(session: WorkerSession, chosen: Iterable[Row], records: dict[str, QueueRecord]) -> None:
    """Note what belongs to the session from now on: seats in queues, and groups that stay with it."""
    for row in chosen:
        record = records[row.queue.name]
        if record.seats is not None:
            row.queue.seated.add(session.number)
        if record.grouping == "assigned" and row.message.group_key is not None:
            row.queue.owners[row.message.group_key] = session.number


def _room(queue: BrokerQueue, record: QueueRecord, session: WorkerSession) -> int | None:
    """How much the session may claim of the queue; None if there is no limit."""
    if record.seats is not None and session.number not in queue.seated and len(queue.seated) >= record.seats:
        return 0
    if record.max_in_flight is None:
        return None
    return max(0, record.max_in_flight - queue.engine.counts()[CLAIMED])


def _used_by(session: WorkerSession, queue: BrokerQueue) -> int:
    # Celery's tasks of all queues share one credit; what they use of it is known from the last heartbeat.
    used = session.used_in(queue) if session.info.kind == "celery" else 0
    return max(used, sum(row_of(entry).queue is queue for entry in session.held()))


def _free_groups(queue: BrokerQueue, session: WorkerSession) -> Iterator[Entry]:
    """Yield the messages of no group, and the first of each group that is free or the session's own."""
    waiting = {row.message.group_key for row in queue.rows.values() if _keeps_others_waiting(row.entry)}
    theirs = {group for group, owner in queue.owners.items() if owner != session.number}
    busy = waiting | theirs
    for entry in queue.engine.browse():
        group = row_of(entry).message.group_key
        if group is None:
            yield entry
        elif group not in busy:
            busy.add(group)
            yield entry


def _keeps_others_waiting(entry: Entry) -> bool:
    """Whether the others of its group wait for it: it is claimed, or has failed and waits to be tried again."""
    return entry.state is CLAIMED or (entry.state is SCHEDULED and entry.redelivered)
