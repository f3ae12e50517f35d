"""Steering: what an operator does to messages and queues."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from django_mq.engine.departing import Cause
from django_mq.engine.doors.steering import UNDELIVERED
from django_mq.engine.states import CLAIMED, DEAD, READY, SCHEDULED, STEALABLE
from django_mq.stores import refusals
from django_mq.stores.memory.history import FailedAttempt
from django_mq.stores.memory.runner import locked
from django_mq.stores.memory.sessions import Sessions
from django_mq.stores.values import later, storable, told, uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.records import Failure
    from django_mq.stores.waiting import WaitingMessage


class Steering(Sessions):
    """Purge, cancel, release, move, reorder, retry, pause."""

    @locked
    def purge(self, name: str) -> int:
        return len(self._existing(name).engine.purge((*UNDELIVERED, DEAD, STEALABLE)))

    @locked
    def cancel(self, ids: Sequence[int]) -> int:
        loose = [row for row in self.broker.found(ids) if row.entry.state is not CLAIMED]
        return sum([row.queue.engine.discard(row.entry, Cause.CANCELLED) for row in loose])

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
        coming = [row for row in _in_order(unheld) if not queue.knows(row.message.message_id)]
        moved = self._moved(coming, queue)
        if moved:
            queue.engine.entered(moved[-1].entry)
        elif coming and queue.settings.is_limited:
            raise refusals.no_room(target)
        return len(moved)

    def _moved(self, rows: Sequence[Row], queue: BrokerQueue) -> list[Row]:
        """Move the rows that fit to the tail of another queue; return them."""
        now, moved = self._now().timestamp(), []
        fitting = queue.engine.fitting([row.queue.engine.travelling(row.entry) for row in rows])
        for row in compress(rows, fitting):
            is_scheduled = row.entry.state is SCHEDULED
            row.queue.engine.move(row.entry, queue.engine, now, more=True)
            row.deliver_at = row.deliver_at if is_scheduled else None
            moved.append(row)
        return moved

    def _send_dead(self, rows: Iterable[Row]) -> None:
        """Send dead letters where their queues say; what cannot go there stays as it is."""
        dead = [(row.queue.engine, row.entry) for row in rows if row.entry.state is DEAD]
        self.broker.engine.send_all(dead, self._now().timestamp())

    @locked
    def deliver_now(self, ids: Sequence[int]) -> int:
        scheduled = [row for row in self.broker.found(ids) if row.queue.engine.deliver_now(row.entry)]
        for row in scheduled:
            row.deliver_at = self._now()
        return len(scheduled)

    @locked
    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        due_at, now = deliver_at.timestamp(), self._now().timestamp()
        moved = [row for row in self.broker.found(ids) if row.queue.engine.reschedule(row.entry, due_at, now)]
        for row in moved:
            row.deliver_at = deliver_at
        return len(moved)

    @locked
    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        now, rows = self._now().timestamp(), _in_order(self.broker.found(ids))
        changed = [row.queue.engine.change_priority(row.entry, priority, now) for row in rows]
        return sum(entry is not None for entry in changed)

    @locked
    def retry_dead(self, ids: Sequence[int]) -> int:
        retried = [row for row in self.broker.found(ids) if row.queue.engine.redrive(row.entry)]
        for row in retried:
            row.ended = None
        return len(retried)

    @locked
    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        queue = self._existing(name)
        queue.paused_reason = storable(reason, 200)
        queue.paused_until = None if seconds is None else later(self._now(), seconds)
        if paused:
            queue.engine.pause()
        else:
            queue.engine.resume()

    def _record(self, row: Row, failure: Failure, worker: str) -> None:
        """Remember that the delivery of a row which a session holds has failed."""
        self.record_attempt(
            failure,
            queue_name=row.queue.name,
            number=row.entry.attempts,
            worker=worker,
            message_id=row.message.message_id,
            correlation_id=row.message.correlation_id,
            type=row.message.type,
        )

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
