"""Publishing: it takes effect at once, for there is no transaction to join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores import refusals
from django_mq.stores.last_value import value_key
from django_mq.stores.memory.declaring import Declaring
from django_mq.stores.memory.row import Row, engine_message
from django_mq.stores.memory.runner import locked
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.engine.options import QueueOptions
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import NewMessage
    from django_mq.stores.room import Room


class Appending(Declaring):
    """Append one or many messages."""

    @locked
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        if again and self._is_here(message):
            return 0
        queue = self._open_queue(message.queue_name)
        if message.message_id in queue.rows:
            raise refusals.duplicate(message)
        return self._write(queue, message, self._now())

    def _is_here(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        return queue is not None and message.message_id in queue.rows

    def _open_queue(self, name: str) -> BrokerQueue:
        queue = self.broker.queues.get(name)
        if queue is None:
            raise refusals.undeclared(name)
        if queue.closed:
            raise refusals.closed(name)
        return queue

    @locked
    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if again and all(self._is_here(message) for message in messages):
            return []
        queues = {name: self._open_queue(name) for name in {message.queue_name for message in messages}}
        self._check_new(messages)
        now = self._now()  # of all of them, so that those which wait as long are due together
        return [self._write(queues[message.queue_name], message, now) for message in messages]

    def _check_new(self, messages: Sequence[NewMessage]) -> None:
        seen = set()
        for message in messages:
            key = (message.queue_name, message.message_id)
            if key in seen:
                raise refusals.twice(message)
            if message.message_id in self.broker.queues[message.queue_name].rows:
                raise refusals.duplicate(message)
            seen.add(key)

    def _write(self, queue: BrokerQueue, message: NewMessage, now: datetime) -> int:
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
            expires_at=_end(expires_at, queue.settings, now),
        )
        self.broker.add(row)
        return row.id

    @locked
    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if again and all(self._was_written(each) for each in messages):
            return []
        queues = {name: self._open_queue(name) for name in sorted({message.queue_name for message in messages})}
        keys = [self._key_of(queues[message.queue_name], message) for message in messages]
        self._check_dedup_ids(messages)
        kept = self._admitted(messages, {name: queue.room() for name, queue in queues.items()})
        if again and kept and all(self._is_here(message) for message in kept):
            return []
        self._check_new(kept if again else messages)
        now = self._now()
        ids = {id(message): self._write(queues[message.queue_name], message, now) for message in kept}
        for message, key in zip(messages, keys, strict=True):
            if id(message) in ids:
                self._arrived(queues[message.queue_name], message, key, ids[id(message)])
        newest = {message.queue_name: ids[id(message)] for message in kept}
        for name, id_ in newest.items():
            if queues[name].room().is_ring:
                self._evict(queues[name], spared=id_)
        return [ids.get(id(message), 0) for message in messages]

    def _was_written(self, message: NewMessage) -> bool:
        queue = self.broker.queues.get(message.queue_name)
        used_by, _ = (None, None) if queue is None else queue.dedup_ids.get(message.dedup_id or "", (None, None))
        return self._is_here(message) or used_by == message.message_id

    @staticmethod
    def _key_of(queue: BrokerQueue, message: NewMessage) -> str | None:
        header = queue.settings.last_value_key
        return value_key(message, header) if header else None

    def _check_dedup_ids(self, messages: Sequence[NewMessage]) -> None:
        """Raise DuplicateMessage for an id that was used, here or by one of the others."""
        now = self._now()
        seen: dict[tuple[str, str], UUID] = {}
        for message in messages:
            if message.dedup_id is None:
                continue
            queue = self.broker.queues[message.queue_name]
            key = (queue.name, message.dedup_id)
            by = queue.remembers(message.dedup_id, now) or seen.get(key)
            if by is not None:
                raise refusals.used(message, by)
            if queue.settings.dedup_count or queue.settings.dedup_seconds is not None:
                seen[key] = message.message_id

    def _arrived(self, queue: BrokerQueue, message: NewMessage, key: str | None, id_: int) -> None:
        """Remember a new message's duplicate id; let it replace what the rules of its queue say."""
        if message.dedup_id is not None:
            queue.remember(message.dedup_id, message.message_id, self._now())
        row = self.broker.rows.get(id_)
        if row is not None and key is not None:  # one that came with it may have replaced it
            self._replace_older(row, key)

    def _admitted(self, messages: Sequence[NewMessage], rooms: Mapping[str, Room]) -> list[NewMessage]:
        """Return the messages that come in. Raises QueueFull."""
        kept = list(messages)
        for name, room in rooms.items():
            mine = [message for message in messages if message.queue_name == name]
            if room.is_ring:
                continue
            fitting = room.admit(mine)
            self.broker.queues[name].dropped += len(mine) - len(fitting)
            welcome = set(map(id, fitting))
            kept = [each for each in kept if each.queue_name != name or id(each) in welcome]
        return kept


def _moment(at: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    if at is not None or seconds is None:
        return at
    return later(now, seconds)


def _end(given: datetime | None, settings: QueueOptions, now: datetime) -> datetime | None:
    """Return when a message that arrives now expires, by its own time and its queue's."""
    end = given if given is not None else _moment(None, settings.ttl_seconds, now)
    if end is not None and settings.min_ttl_seconds is not None:
        end = max(end, later(now, settings.min_ttl_seconds))
    if settings.max_ttl_seconds is None:
        return end
    latest = later(now, settings.max_ttl_seconds)
    return latest if end is None else min(end, latest)
