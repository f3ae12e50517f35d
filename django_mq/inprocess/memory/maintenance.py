"""Maintenance, and what is forgotten of the past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from django_mq import conf
from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.decisions.decline import BY_ALL, audience_of, is_settled, is_unwanted
from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.selection import may_want
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.states import DEAD, Cause
from django_mq.inprocess.entries.timeline import expiry_order
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import row_of
from django_mq.stores.records import later
from django_mq.stores.subjects import maintenance as subjects

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from types import SimpleNamespace

    from django_mq.inprocess.memory.parking import Parking
    from django_mq.inprocess.memory.row import LiveMessage

Item = TypeVar("Item")

#: How long the history of a deleted queue is kept.
ORPHANED = timedelta(days=7)
#: How long a failed attempt is kept after its message has left its queue.
ATTEMPTS_KEPT = timedelta(days=30)


@dataclass(eq=False)
class Maintenance(Part, subjects.Maintenance):
    parking: Parking

    @locked
    def promote(self, limit: int = 1000) -> int:
        now = self.broker.now()
        for queue in self.broker.queues.values():
            queue.end_pause(now)
        promoted = sum(len(queue.inner.promote(now.timestamp(), limit)) for queue in self.broker.queues.values())
        return promoted + self.parking.free_due(limit)

    @locked
    def expire(self, limit: int = 1000) -> int:
        now = self.broker.now().timestamp()
        queues = [queue.inner for queue in self.broker.queues.values()]
        for inner in queues:
            inner.due.let_values_arrive(now)  # a value that was due before its end has replaced others
        overdue = [(inner, entry) for inner in queues for entry in inner.due.overdue(now, limit)]
        overdue = nsmallest(limit, overdue, key=lambda pair: expiry_order(pair[1]))
        for inner, entry in overdue:
            if row_of(entry).leaves_expired and inner.control.bury(entry, now, BY_EXPIRY):
                row_of(entry).let_go()  # a stealable consumer may have held it
            else:
                inner.control.discard(entry, Cause.EXPIRED)
        self.dead_letters.send_expired(row_of(entry) for _, entry in overdue if entry.state is DEAD)
        return len(overdue)

    @locked
    def bury_unwanted(self) -> int:
        now, grace_seconds = self.broker.now(), conf.load().DECLINE_GRACE_SECONDS
        living = [session for session in self.broker.sessions.values() if session.deadline >= now]
        unwanted: list[LiveMessage] = []
        before, self.broker.audiences = self.broker.audiences, {}
        for name, queue in self.broker.queues.items():
            declined = [row_of(entry) for entry in queue.inner.browse() if entry.declined_by]
            if not declined or is_paused(queue.inner.paused, queue.paused_until, now):
                continue
            consumers = {session.number: session.selectors(name) for session in living if session.consumes(name)}
            audience = audience_of(before.get(name), frozenset(consumers), now.timestamp())
            self.broker.audiences[name] = audience
            if is_settled(audience, now.timestamp(), grace_seconds):
                unwanted += [row for row in declined if self._is_unwanted(row, consumers, grace_seconds)]
        for row in unwanted:
            row.entry.declined_by = None
            row.queue.inner.control.bury(row.entry, now.timestamp(), BY_ALL)
            self.broker.note_end(row, End.DEAD)
        self.dead_letters.send_dead(unwanted)
        return len(unwanted)

    def _is_unwanted(self, row: LiveMessage, consumers: Mapping[int, set[str]], grace_seconds: float) -> bool:
        entry, sessions, group = row.entry, row.queue.sessions, row.message.group_key
        declined_by = {sessions[consumer] for consumer in entry.declined_by or () if consumer in sessions}
        owner = None if group is None else row.queue.owner_of(group)
        is_old = row.declined_at is not None and later(row.declined_at, grace_seconds) <= self.broker.now()
        wanting = [number for number, texts in consumers.items() if may_want(texts, entry.message)]
        return is_old and is_unwanted(declined_by, wanting, owner)

    @locked
    def trim(self) -> int:
        return sum(queue.inner.control.trim() for queue in self.broker.queues.values())


class Retention(Part, subjects.Retention):
    @locked
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        now = self.broker.now()
        kept = (timedelta(days=queue.settings.history_days) for queue in self.broker.queues.values())
        # The shortest time for which a queue keeps history.
        shortest = timedelta(0) if whole else min((time for time in kept if time), default=ORPHANED)
        live = {row.message.message_id for row in self.broker.rows.values()}
        history = _drop(self.broker.history, lambda item: self._is_past(item, now, shortest), limit)
        attempts = _drop(
            self.broker.attempts,
            lambda item: item.message_id not in live and now - item.failed_at > ATTEMPTS_KEPT,
            limit,
        )
        dedup_ids = sum(queue.inner.duplicate_ids.prune(now.timestamp()) for queue in self.broker.queues.values())
        return history + attempts + dedup_ids + self._prune_volatile(now)

    def _prune_volatile(self, now: datetime) -> int:
        bindings, messages = self.broker.volatile_bindings, self.broker.volatile_messages
        self.broker.volatile_bindings = living = {
            key: (kind, end) for key, (kind, end) in bindings.items() if end >= now
        }
        self.broker.volatile_messages = kept = [item for item in messages if item[2] >= now]
        return len(bindings) - len(living) + len(messages) - len(kept)

    def _is_past(self, item: SimpleNamespace, now: datetime, shortest: timedelta) -> bool:
        queue = self.broker.queues.get(item.queue_name)
        kept = ORPHANED if queue is None else timedelta(days=queue.settings.history_days)
        return bool(now - item.finished_at > max(kept, min(shortest, ORPHANED)))


def _drop(remembered: deque[Item], is_over: Callable[[Item], bool], limit: int) -> int:
    over = list(islice((item for item in remembered if is_over(item)), limit))
    for item in over:
        remembered.remove(item)
    return len(over)
