"""Publications: write messages in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.duplicates import id_taken, id_twice
from django_mq.stores import errors
from django_mq.stores.records import NewMessage
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import publications as subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.queues import Queues


#: The fields of NewMessage that are parameters of the statements.
NEW_MESSAGE_FIELDS = tuple(
    each.name for each in fields(NewMessage) if each.name not in {"dedup_id", "place", "exchange", "unique"}
)


def has_time(message: NewMessage) -> bool:
    """Whether the message says when it is delivered, which may be now."""
    return message.deliver_at is not None or bool(message.delay_seconds)


def is_ready_at_once(message: NewMessage) -> bool:
    """Whether the message has no time of delivery or expiry."""
    return (
        message.deliver_at is None
        and message.delay_seconds is None
        and message.expires_at is None
        and message.ttl_seconds is None
    )


def is_keyed_at_once(message: NewMessage, claim: UniqueClaim) -> bool:
    """Whether the message is ready at once if it takes its unique key."""
    return claim.rule.debounce_seconds is None and is_ready_at_once(message)


#: How often a write is tried that left out a message for a reason that has gone since.
TRIES = 3


def parameters_of(message: NewMessage, *, placed: bool = False) -> dict[str, Any]:
    """Return the parameters of a statement; ``placed``: whether it writes places."""
    given = {name: getattr(message, name) for name in NEW_MESSAGE_FIELDS}
    return given | {"place": message.place} if placed else given


def are_placed(messages: Iterable[NewMessage]) -> bool:
    """Whether one of the messages has its place already."""
    return any(message.place is not None for message in messages)


class IncompleteError(Exception):
    """Some of these messages could not be written: the transaction must be rolled back."""


@dataclass(eq=False)
class Publications(Part, subjects.Publications):
    queues: Queues

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
        return self.database.insert("append", **parameters_of(message, placed=are_placed([message])))

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
        queue = self.queues.find(name)
        if queue is None:
            raise errors.undeclared(name)
        if queue.closed:
            raise errors.closed(name)

    def is_taken(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "message_id": message.message_id}
        return bool(self.rows("message_taken", **row))
