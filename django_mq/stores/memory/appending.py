"""Publishing: it takes effect at once, for there is no transaction to join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores import refusals
from django_mq.stores.memory.declaring import Declaring
from django_mq.stores.memory.row import Row, engine_message
from django_mq.stores.memory.runner import locked
from django_mq.stores.times import later

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import NewMessage


class Appending(Declaring):
    """Append one or many messages."""

    @locked
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        queue = self._open_queue(message.queue_name)
        if message.message_id not in queue.rows:
            return self._write(queue, message)
        if again:
            return 0
        raise refusals.duplicate(message)

    def _open_queue(self, name: str) -> BrokerQueue:
        queue = self.broker.queues.get(name)
        if queue is None:
            raise refusals.undeclared(name)
        if queue.closed:
            raise refusals.closed(name)
        return queue

    @locked
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        queues = {name: self._open_queue(name) for name in {message.queue_name for message in messages}}
        if again and all(message.message_id in queues[message.queue_name].rows for message in messages):
            return []
        self._check_new(messages)
        return [self._write(queues[message.queue_name], message) for message in messages]

    def _check_new(self, messages: Sequence[NewMessage]) -> None:
        seen = set()
        for message in messages:
            key = (message.queue_name, message.message_id)
            if key in seen:
                raise refusals.twice(message)
            if message.message_id in self.broker.queues[message.queue_name].rows:
                raise refusals.duplicate(message)
            seen.add(key)

    def _write(self, queue: BrokerQueue, message: NewMessage) -> int:
        now = self._now()
        deliver_at = _moment(message.deliver_at, message.delay_seconds, now)
        expires_at = _moment(message.expires_at, message.ttl_seconds, now)
        row = Row(
            message=message,
            queue=queue,
            entry=queue.engine.placement.entry(
                engine_message(message, deliver_at), next(self.broker.arrivals), now.timestamp()
            ),
            published_at=now,
            deliver_at=deliver_at,
            expires_at=expires_at or _moment(None, queue.settings.ttl_seconds, now),
        )
        self.broker.add(row)
        return row.id

    @locked
    def reserve(self, name: str, wanted: int) -> None:
        queue = self._existing(name)
        limit, held = queue.settings.max_messages, len(queue.rows)
        if limit is not None and held + wanted > limit:
            raise refusals.full(name, held=held, limit=limit, wanted=wanted)


def _moment(at: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    if at is not None or seconds is None:
        return at
    return later(now, seconds)
