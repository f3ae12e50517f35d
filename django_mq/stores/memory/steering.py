"""Steering: what an operator does to messages and queues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.entry import Entry
from django_mq.engine.levels import level_of
from django_mq.engine.places import ORDINARY_PLACE, place_of
from django_mq.engine.states import DEAD, READY, SCHEDULED
from django_mq.stores import refusals
from django_mq.stores.memory.arriving import Arriving
from django_mq.stores.memory.history import FailedAttempt, Outcome
from django_mq.stores.memory.row import engine_message
from django_mq.stores.memory.runner import locked
from django_mq.stores.values import later, storable, told, uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.records import Failure
    from django_mq.stores.waiting import WaitingMessage


class Steering(Arriving):
    """Purge, cancel, release, move, reorder, retry, pause."""

    @locked
    def purge(self, name: str) -> int:
        return self._remove(list(self._existing(name).rows.values()), Outcome.PURGED)

    @locked
    def cancel(self, ids: Sequence[int]) -> int:
        return self._remove(self.broker.found(ids), Outcome.CANCELLED)

    def _remove(self, rows: Iterable[Row], outcome: Outcome) -> int:
        unheld = [row for row in rows if not row.held]
        for row in unheld:
            self.broker.finish(row, outcome)
        return len(unheld)

    @locked
    def correlated(self, ids: Sequence[str]) -> list[WaitingMessage]:
        wanted = {*ids, *(made for given in ids if (made := uuid_of(given)) is not None)}
        waiting = [row for row in self.broker.rows.values() if row.entry.state in (SCHEDULED, READY)]
        return [
            row.waiting()
            for row in waiting
            if row.message.correlation_id in wanted or row.message.message_id in wanted
        ]

    @locked
    def release_held(self, ids: Sequence[int]) -> int:
        held = [row for row in self.broker.found(ids) if row.held]
        for row in held:
            self._give_back(row)
        return len(held)

    @locked
    def move(self, ids: Sequence[int], target: str) -> int:
        queue = self._existing(target)
        if queue.closed:
            raise refusals.closed(target)
        unheld = [row for row in self.broker.found(ids) if not row.held]
        coming = [row for row in _in_order(unheld) if row.message.message_id not in queue.rows]
        moved = newest = 0
        for row in coming:
            room = queue.room()
            if not room.is_ring and room.is_exceeded(1, len(row.message.body)):
                break
            if self._move(row, queue):
                moved, newest = moved + 1, row.id
        if coming and not moved and queue.room().is_limited:
            raise refusals.no_room(target)
        if moved and queue.room().is_ring:
            self._evict(queue, spared=newest)
        return moved

    def _move(self, row: Row, queue: BrokerQueue) -> bool:
        """Move a row to the tail of another queue, if that takes it."""
        if not self._may_come(row, queue):
            return False
        scheduled = row.entry.state is SCHEDULED
        deliver_at = row.deliver_at if scheduled else None
        due_at = None if deliver_at is None else deliver_at.timestamp()
        place = place_of(due_at, due_first=queue.engine.placement.due_first)
        self._stand_anew(row, queue, place=place, redelivered=row.entry.redelivered)
        row.deliver_at = deliver_at
        row.suspect, row.dead_reason, row.dead_at = False, "", None
        self._replace_by(row, self._key_in(row, queue))
        return True

    def _stand_anew(
        self, row: Row, queue: BrokerQueue, *, place: int, attempts: int = 0, redelivered: bool = False
    ) -> None:
        """Let a row arrive again, at the tail of its level; its id changes. Scheduled stays scheduled."""
        old = row.entry
        self.broker.forget(row)
        scheduled = old.state is SCHEDULED and row.deliver_at is not None
        row.queue.engine.remove(old)
        row.value_key = row.value_key if row.queue is queue else None
        row.queue, row.ended = queue, None
        row.entry = Entry(
            engine_message(row.message, row.deliver_at),
            level=level_of(row.message.priority, queue.engine.placement.levels),
            place=place,
            arrival=next(self.broker.arrivals),
            state=SCHEDULED if scheduled else READY,
            due_at=old.due_at if scheduled else None,
            attempts=attempts,
            redelivered=redelivered,
        )
        self.broker.add(row)

    @locked
    def deliver_now(self, ids: Sequence[int]) -> int:
        scheduled = [row for row in self.broker.found(ids) if row.queue.engine.deliver_now(row.entry)]
        for row in scheduled:
            row.deliver_at = self._now()
        return len(scheduled)

    @locked
    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        waiting = [row for row in self.broker.found(ids) if row.entry.state in (READY, SCHEDULED)]
        free = [row for row in waiting if row.value_key is None]
        for row in free:
            self._stand_later(row, deliver_at)
        return len(free)

    def _stand_later(self, row: Row, deliver_at: datetime) -> None:
        """Let a row stand where its queue has those that are due then; its id stays."""
        old, queue = row.entry, row.queue
        self.broker.forget(row)
        queue.engine.remove(old)
        due_at = deliver_at.timestamp()
        waits = deliver_at > self._now()
        row.deliver_at = deliver_at
        row.entry = Entry(
            engine_message(row.message, deliver_at),
            level=old.level,
            place=place_of(due_at, due_first=queue.engine.placement.due_first),
            arrival=old.arrival,
            state=SCHEDULED if waits else READY,
            due_at=due_at if waits else None,
            attempts=old.attempts,
            redelivered=old.redelivered,
        )
        row.entry.claim_number = old.claim_number  # no token may be given twice
        self.broker.add(row)

    @locked
    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        waiting = [row for row in self.broker.found(ids) if row.entry.state in (READY, SCHEDULED)]
        changed = [row for row in waiting if row.message.priority != priority]
        for row in _in_order(changed):
            entry = row.entry
            row.message = replace(row.message, priority=priority)
            place = entry.place if entry.state is SCHEDULED else ORDINARY_PLACE
            self._stand_anew(row, row.queue, place=place, attempts=entry.attempts, redelivered=entry.redelivered)
        return len(changed)

    @locked
    def retry_dead(self, ids: Sequence[int]) -> int:
        dead = [row for row in self.broker.found(ids) if row.entry.state is DEAD]
        for row in dead:
            row.queue.engine.redrive(row.entry)
            row.entry.redelivered = True
            row.expires_at, row.dead_reason, row.dead_at, row.ended = None, "", None, None
            self._keep_latest(row)
        return len(dead)

    @locked
    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        queue = self._existing(name)
        queue.paused = paused
        queue.paused_reason = storable(reason, 200)
        queue.paused_until = None if seconds is None else later(self._now(), seconds)

    @locked
    def record_attempt(
        self,
        failure: Failure,
        *,
        queue_name: str,
        number: int,
        worker: str,
        message_id: UUID | None = None,
        correlation_id: str | None = None,
        type: str = "",  # noqa: A002 - as the field
    ) -> None:
        attempt = FailedAttempt(
            message_id=message_id,
            correlation_id=correlation_id,
            queue_name=queue_name[:200],
            type=storable(type, 255),
            number=number,
            failed_at=self._now(),
            worker=worker[:255],
            error=storable(failure.error, 255),
            detail=told(failure.detail),
            traceback=told(failure.traceback),
        )
        self.broker.attempts.append(attempt)


def _in_order(rows: Iterable[Row]) -> list[Row]:
    """Sort rows as they stood, so that they keep their order among themselves."""
    return sorted(rows, key=lambda row: row.entry.order)
