"""Publishing: rows written in the caller's transaction."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django_mq.engine.duplicates import id_taken, id_twice
from django_mq.stores import refusals
from django_mq.stores.last_value import value_key
from django_mq.stores.sql.moving import Moving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.stores.records import NewMessage
    from django_mq.stores.room import Room


#: What of a NewMessage becomes a parameter of the statements.
NEW_MESSAGE_FIELDS = (
    "queue_name",
    "message_id",
    "body",
    "content_type",
    "content_encoding",
    "headers",
    "properties",
    "priority",
    "type",
    "correlation_id",
    "group_key",
    "deliver_at",
    "delay_seconds",
    "expires_at",
    "ttl_seconds",
)


def is_ready_at_once(message: NewMessage) -> bool:
    """Whether nothing is said of when the message comes and goes."""
    return (
        message.deliver_at is None
        and message.delay_seconds is None
        and message.expires_at is None
        and message.ttl_seconds is None
    )


#: How often a write is tried that leaves out a message for a reason that has gone away since.
TRIES = 3


class IncompleteError(Exception):
    """Not every message could be written: the transaction must go."""


class Appending(Moving):
    """Append one or many messages."""

    def append(self, message: NewMessage, *, again: bool = False) -> int:
        for _ in range(TRIES):
            rows = self._append_one(message)
            if rows:
                return int(rows[0][0])
            if self._is_written([message], again=again):
                return 0
        raise refusals.unexplained(message)

    def _append_one(self, message: NewMessage) -> list[tuple[Any, ...]]:
        return self._rows("append", **self._message_params(message))

    def _message_params(self, message: NewMessage) -> dict[str, Any]:
        return {name: getattr(message, name) for name in NEW_MESSAGE_FIELDS}

    def _is_written(self, messages: Sequence[NewMessage], *, again: bool) -> bool:
        """Whether an earlier try has written all messages, of which the last try has left out at least one.

        Raises UnknownQueue, QueueClosed or DuplicateMessage for the reason. False: the reason is over. Another
        transaction has declared the queue since, or a message with the same id has been finished.
        """
        # Asked after the rollback: before it, the messages just written look taken too.
        if again and all(self._taken(message) for message in messages):
            return True
        for name in {message.queue_name for message in messages}:
            self._check_open(name)
        seen = set()
        for message in messages:
            key = (message.queue_name, message.message_id)
            if key in seen:
                raise id_twice(message.message_id)
            if self._taken(message):
                raise id_taken(message.queue_name, message.message_id)
            seen.add(key)
        return False

    def _check_open(self, name: str) -> None:
        queue = self.queue(name)
        if queue is None:
            raise refusals.undeclared(name)
        if queue.closed:
            raise refusals.closed(name)

    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        for _ in range(TRIES):
            with suppress(IncompleteError), self._transaction():
                return self._append_complete(messages)
            if self._is_written(messages, again=again):
                return []
        raise refusals.unexplained(messages[0])

    def _append_complete(self, messages: Sequence[NewMessage]) -> list[int]:
        """Append in the open transaction. Raises IncompleteError."""
        if not messages:
            return []
        if len(messages) == 1:
            ids = [int(row[0]) for row in self._append_one(messages[0])]
        else:
            ids = self._append_all(messages)
        if len(ids) < len(messages):
            raise IncompleteError
        return ids

    def _append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        raise NotImplementedError

    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        if again and all(self._taken(message) or self._is_used_by(message) for message in messages):
            return []
        for _ in range(TRIES):
            try:
                with self._transaction():
                    return self._append_within_rules(messages, again=again)
            except IncompleteError as error:
                [kept] = error.args
            if self._is_written(kept, again=again):
                return []
        raise refusals.unexplained(messages[0])

    def _append_within_rules(self, messages: Sequence[NewMessage], *, again: bool) -> list[int]:
        """Append in the open transaction what the limits admit. Raises IncompleteError with those messages."""
        rooms = self._rooms({message.queue_name for message in messages})
        keys = _value_keys(messages, rooms)
        self._use_dedup_ids(messages)
        kept = self._admitted(messages, rooms)
        if len(kept) < len(messages):
            self._give_up(messages, kept, rooms, again=again)
        try:
            ids = dict(zip(map(id, kept), self._append_complete(kept), strict=True))
        except IncompleteError:
            raise IncompleteError(kept) from None
        for name, room in rooms.items():
            mine = [message for message in kept if message.queue_name == name]
            self._replace_values(room, {ids[id(each)]: keys[id(each)] for each in mine if id(each) in keys})
            self._make_room(room, mine, newest=ids[id(mine[-1])] if mine else 0)
        return [ids.get(id(message), 0) for message in messages]

    def _give_up(
        self,
        messages: Sequence[NewMessage],
        kept: Sequence[NewMessage],
        rooms: Mapping[str, Room],
        *,
        again: bool,
    ) -> None:
        """Count what full queues drop, and let its duplicate ids be used again.

        Raises QueueClosed, and DuplicateMessage for a message that is there, unless it is published again.
        """
        welcome = set(map(id, kept))
        for name, room in rooms.items():
            dropped = [each for each in messages if each.queue_name == name and id(each) not in welcome]
            if dropped:
                self._check_open(name)
                if taken := [each for each in dropped if not again and self._taken(each)]:
                    raise id_taken(name, taken[0].message_id)
                self._rows("count_dropped", queue_id=room.queue_id, dropped=len(dropped))
                self._take_back_dedup_ids(room.queue_id, dropped)

    def _taken(self, message: NewMessage) -> bool:
        return bool(self._rows("message_taken", queue=message.queue_name, message_id=message.message_id))


def _value_keys(messages: Sequence[NewMessage], rooms: Mapping[str, Room]) -> dict[int, str]:
    """Return what last-value queues tell their messages by. Raises InvalidMessage."""
    keys = {}
    for message in messages:
        room = rooms.get(message.queue_name)
        key = value_key(message, room.last_value_key) if room is not None and room.last_value_key else None
        if key is not None:
            keys[id(message)] = key
    return keys
