"""Publications: write messages in the caller's transaction."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.duplicates import id_taken, id_twice
from django_mq.stores import errors
from django_mq.stores.records import NewMessage
from django_mq.stores.sql.admission import size_of, value_key
from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django_mq.stores.sql.admission import QueueCapacity
    from django_mq.stores.sql.database import Rows


#: The fields of NewMessage that are parameters of the statements.
NEW_MESSAGE_FIELDS = tuple(
    each.name for each in fields(NewMessage) if each.name not in {"dedup_id", "sort_place", "exchange"}
)


def is_ready_at_once(message: NewMessage) -> bool:
    """Whether the message has no time of delivery or expiry."""
    return (
        message.deliver_at is None
        and message.delay_seconds is None
        and message.expires_at is None
        and message.ttl_seconds is None
    )


#: How often a write is tried that left out a message for a reason that has gone since.
TRIES = 3


def parameters_of(message: NewMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name in NEW_MESSAGE_FIELDS}


class IncompleteError(Exception):
    """Some of these messages could not be written: the transaction must be rolled back."""


class Publications(Part):
    def append(self, message: NewMessage, *, again: bool = False) -> int:
        for _ in range(TRIES):
            if rows := self.append_one(message):
                return int(rows[0][0])
            if self.is_written([message], again=again):
                return 0
        raise errors.unexplained(message)

    def append_many(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        return self.tried(lambda: self.append_complete(messages), messages, again=again)

    def tried(self, write: Callable[[], list[int]], messages: Sequence[NewMessage], *, again: bool) -> list[int]:
        """Write in a transaction, and again if the reason for leaving out a message has gone."""
        for _ in range(TRIES):
            try:
                with self.database.transaction():
                    return write()
            except IncompleteError as error:
                [missed] = error.args
            if self.is_written(missed, again=again):
                return []
        raise errors.unexplained(messages[0])

    def append_one(self, message: NewMessage) -> Rows:
        return self.database.insert("append", **parameters_of(message))

    def append_complete(self, messages: Sequence[NewMessage]) -> list[int]:
        """Append in the open transaction. Raises IncompleteError with the messages."""
        if not messages:
            return []
        if len(messages) == 1:
            ids = [int(row[0]) for row in self.append_one(messages[0])]
        else:
            ids = self.append_all(messages)
        if len(ids) < len(messages):
            raise IncompleteError(messages)
        return ids

    def append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        """Return the ids of the rows in the given order, fewer where not all could be written."""
        raise NotImplementedError

    def is_written(self, messages: Sequence[NewMessage], *, again: bool) -> bool:
        """Return whether an earlier try has written all messages, after a write that left out at least one.

        Raises UnknownQueue, QueueClosed or DuplicateMessage for the reason. False says that the reason has gone:
        another transaction has declared the queue, or the message with the same id has been finished.
        """
        # After the rollback: before it, the messages just written are taken, too.
        if again and all(self.is_taken(message) for message in messages):
            return True
        for name in {message.queue_name for message in messages}:
            self.check_open(name)
        seen = set()
        for message in messages:
            key = (message.queue_name, message.message_id)
            if key in seen:
                raise id_twice(message.message_id)
            if self.is_taken(message):
                raise id_taken(message.queue_name, message.message_id)
            seen.add(key)
        return False

    def check_open(self, name: str) -> None:
        """Raise UnknownQueue or QueueClosed for a queue that takes no messages."""
        queue = self.store.queues.queue(name)
        if queue is None:
            raise errors.undeclared(name)
        if queue.closed:
            raise errors.closed(name)

    def is_taken(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "message_id": message.message_id}
        return bool(self.rows("message_taken", **row))

    # By the rules of the queues.

    def append_by_rules(self, messages: Sequence[NewMessage], *, again: bool = False) -> list[int]:
        is_used = self.store.duplicate_ids.is_used_by
        if again and all(self.is_taken(message) or is_used(message) for message in messages):
            return []
        return self.tried(lambda: self._append(messages, again=again), messages, again=again)

    def _append(self, messages: Sequence[NewMessage], *, again: bool) -> list[int]:
        """Append the messages that the limits admit. Raises IncompleteError."""
        capacities = self.store.capacity.of({message.queue_name for message in messages})
        keys = _value_keys(messages, capacities)
        self.store.duplicate_ids.use(messages)
        kept = self.store.capacity.admitted(messages, capacities)
        if len(kept) < len(messages):
            self._give_up(messages, kept, capacities, again=again)
        ids = dict(zip(map(id, kept), self.append_complete(kept), strict=True))
        for message in kept:
            if message.sort_place is not None:
                self.rows("set_place", id=ids[id(message)], place=message.sort_place)
        for name in {message.queue_name for message in kept}:
            self.store.declared.ask_new(name, [ids[id(each)] for each in kept if each.queue_name == name])
        for name, capacity in capacities.items():
            mine = [message for message in kept if message.queue_name == name]
            self.store.last_values.replace(
                capacity,
                {ids[id(each)]: keys[id(each)] for each in mine if id(each) in keys},
                scheduled=any(each.deliver_at is not None or each.delay_seconds for each in mine),
            )
            if mine:
                self.store.capacity.settle_in(capacity, len(mine), size_of(mine), newest=ids[id(mine[-1])])
        return [ids.get(id(message), 0) for message in messages]

    def _give_up(
        self,
        messages: Sequence[NewMessage],
        kept: Sequence[NewMessage],
        capacities: Mapping[str, QueueCapacity],
        *,
        again: bool,
    ) -> None:
        """Count messages that full queues drop, and forget their duplicate ids.

        Raises QueueClosed, and DuplicateMessage for a message that is in the queue, unless it is published again.
        """
        welcome = set(map(id, kept))
        for name, capacity in capacities.items():
            dropped = [each for each in messages if each.queue_name == name and id(each) not in welcome]
            if dropped:
                self.check_open(name)
                if taken := [each for each in dropped if not again and self.is_taken(each)]:
                    raise id_taken(name, taken[0].message_id)
                self.rows("count_dropped", queue_id=capacity.queue_id, dropped=len(dropped))
                self.store.duplicate_ids.take_back(capacity.queue_id, dropped)


def _value_keys(messages: Sequence[NewMessage], capacities: Mapping[str, QueueCapacity]) -> dict[int, str]:
    headers = {name: capacity.last_value_key for name, capacity in capacities.items() if capacity.last_value_key}
    keyed = [(message, headers[message.queue_name]) for message in messages if message.queue_name in headers]
    return {id(message): key for message, header in keyed if (key := value_key(message, header)) is not None}
