"""Publishing: it takes effect at once, for there is no transaction to join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.states import READY
from django_mq.stores import refusals
from django_mq.stores.memory.declaring import Declaring
from django_mq.stores.memory.history import Outcome
from django_mq.stores.memory.row import Row, engine_message
from django_mq.stores.memory.runner import locked
from django_mq.stores.room import size_of
from django_mq.stores.times import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import NewMessage
    from django_mq.stores.room import Room


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
    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        names = {message.queue_name for message in messages}
        queues = {name: self._open_queue(name) for name in sorted(names)}
        rooms = {name: queue.room() for name, queue in queues.items()}
        if again and all(message.message_id in queues[message.queue_name].rows for message in messages):
            return []
        kept = self._admitted(messages, rooms)
        ids = dict(zip(map(id, kept), self.append_many(kept), strict=True))
        for name, room in rooms.items():
            mine = [message for message in kept if message.queue_name == name]
            if room.is_ring and mine:
                self._evict(self.broker.queues[name], spared=ids[id(mine[-1])])
        return [ids.get(id(message), 0) for message in messages]

    def _admitted(self, messages: Sequence[NewMessage], rooms: Mapping[str, Room]) -> list[NewMessage]:
        """Return the messages that come in. Raises QueueFull."""
        kept = list(messages)
        for name, room in rooms.items():
            mine = [message for message in messages if message.queue_name == name]
            if room.is_ring or not room.is_exceeded(len(mine), size_of(mine)):
                continue
            if room.overflow != "drop":
                room.check(mine)
            fitting = room.fitting(mine)
            self.broker.queues[name].dropped += len(mine) - len(fitting)
            welcome = set(map(id, fitting))
            kept = [each for each in kept if each.queue_name != name or id(each) in welcome]
        return kept

    def _evict(self, queue: BrokerQueue, *, spared: int) -> None:
        """Replace ready messages, the first of the lowest level first, until the ring is not too full."""
        while queue.room().is_exceeded():
            ready = [row for row in queue.rows.values() if row.entry.state is READY and row.id != spared]
            if not ready:
                break  # what is held or scheduled stays
            self.broker.finish(min(ready, key=_least), Outcome.REPLACED)


def _least(row: Row) -> tuple[int, int, int]:
    """The order in which a ring drives messages out."""
    return row.entry.level, row.entry.place, row.id


def _moment(at: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    if at is not None or seconds is None:
        return at
    return later(now, seconds)
