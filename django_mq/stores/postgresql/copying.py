"""Messages as COPY reads them: rows in PostgreSQL's binary format.

Most of a row is the same for all messages of a batch. That part is made once for each
kind of message; a message adds its id, its message id and its body.
"""

from __future__ import annotations

from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.expiry import Lifetime
from django_mq.engine.places import MOST_LEVELS, level_of, levels_of, place_at
from django_mq.engine.states import State
from django_mq.stores.sql.publications import is_ready_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.stores.records import NewMessage, Times

#: From so many messages on, two more round trips cost less than COPY saves.
WORTH_COPYING = 50
#: What stands before and after the rows.
BEGINNING, END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
#: A value is its length and itself; no value is the length -1. A row begins with its number of columns.
LENGTH = Struct(">i")
NULL = LENGTH.pack(-1)
COLUMNS = (21).to_bytes(2, "big")
#: Of rows whose ids the table gives, one less.
COLUMNS_WITHOUT_ID = (20).to_bytes(2, "big")
#: Queue, published at. Then, after the expiry: level, priority.
QUEUE_AND_TIME, PLACE = Struct(">iqiq"), Struct(">ihih")
TIME = Struct(">iq")
#: State, place, attempts, redelivered, suspect and reason of what is ready and has never been delivered.
READY = Struct(">ihiqiii?i?i").pack(2, State.READY.value, 8, 0, 4, 0, 1, False, 1, False, 0)
#: Of these, what is true of a message that is due later, too.
FRESH = Struct(">iii?i?i").pack(4, 0, 1, False, 1, False, 0)
#: State, place and time of a message that is due; of one that does not say when.
DUE = Struct(">ihiqiq")
AT_ONCE = Struct(">ihiqi").pack(2, State.READY.value, 8, 0, -1)
#: Microseconds from 1970 to 2000, where PostgreSQL's time begins.
SINCE_2000 = 946_684_800_000_000
#: Id and message id, and the length of the body that follows.
OWN = Struct(">iqi16si")
#: The same without the id.
OWN_WITHOUT_ID = Struct(">i16si")


class Options(NamedTuple):
    """A queue's options that decide places and times."""

    kind: str = "priority"
    levels: int = MOST_LEVELS
    due_order: str = "due_first"
    min_ttl_seconds: float | None = None
    max_ttl_seconds: float | None = None
    ttl_seconds: float | None = None


class Target:
    """What messages get from their queue: its id, the time, in microseconds since 2000, and its options."""

    __slots__ = ("due_first", "levels", "lifetime", "published_at", "queue_id")

    def __init__(self, queue_id: int, published_at: int, options: Options) -> None:
        self.queue_id = queue_id
        self.published_at = published_at
        self.levels = levels_of(options.kind, options.levels)
        self.due_first = options.due_order == "due_first"
        self.lifetime = Lifetime(
            _microseconds(options.min_ttl_seconds),
            _microseconds(options.max_ttl_seconds),
            _microseconds(options.ttl_seconds),
        )

    @classmethod
    def of(cls, found: Sequence[Any]) -> Target:
        """Return it from a row of copy_targets, without the name and the ids."""
        queue_id, published_at, *options = found
        return cls(queue_id, published_at, Options(*options))

    def beginning(self, priority: int) -> bytes:
        return COLUMNS + self._times() + self.expiry(None) + self._place(priority) + READY

    def beginning_of_timed(self, priority: int) -> bytes:
        """Return the row's columns up to the reason, without those that are a matter of its times."""
        return COLUMNS + self._times() + self._place(priority) + FRESH

    def _times(self) -> bytes:
        return QUEUE_AND_TIME.pack(8, self.queue_id, 8, self.published_at)

    def _place(self, priority: int) -> bytes:
        return PLACE.pack(2, level_of(priority, self.levels), 2, priority)

    def due(self, at: int | None) -> bytes:
        """Return the state, the place and the time, given in microseconds since 1970."""
        if at is None:
            return AT_ONCE
        state = State.SCHEDULED if at - SINCE_2000 > self.published_at else State.READY
        return DUE.pack(2, state.value, 8, place_at(at, due_first=self.due_first), 8, at - SINCE_2000)

    def expiry(self, at: int | None) -> bytes:
        """Return when a message expires whose own time is given in microseconds since 1970, or none."""
        end: Any = self.lifetime.end(None if at is None else at - SINCE_2000, self.published_at)
        return NULL if end is None else TIME.pack(8, end)


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)


def is_worth_copying(messages: Sequence[NewMessage]) -> bool:
    """Whether these are many, and COPY, which has no expressions for times, can write them."""
    return len(messages) >= WORTH_COPYING and all(map(is_ready_at_once, messages))


def rows(messages: Sequence[NewMessage], ids: Sequence[int], targets: Mapping[str, Target]) -> bytes:
    return b"".join([BEGINNING, *_rows(messages, ids, targets), END])


def rows_alike(like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], target: Target) -> bytes:
    """Return everything that COPY is to be sent for messages that are alike; the table gives their row ids."""
    common = COLUMNS_WITHOUT_ID + target.beginning(like.priority)[len(COLUMNS) :] + _texts(like)
    pack = OWN_WITHOUT_ID.pack
    parts = [BEGINNING]
    for id_, body in zip(message_ids, bodies, strict=True):
        parts += (common, pack(16, id_, len(body)), body)
    parts.append(END)
    return b"".join(parts)


def rows_timed(
    like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times, target: Target
) -> bytes:
    """Return the same for messages of which each brings its own times."""
    common = target.beginning_of_timed(like.priority) + _texts(like)
    pack, due, expiry = OWN_WITHOUT_ID.pack, target.due, target.expiry
    parts = [BEGINNING]
    for id_, body, at, end in zip(message_ids, bodies, times.deliver_at, times.expires_at, strict=True):
        parts += (common, due(at), expiry(end), pack(16, id_, len(body)), body)
    parts.append(END)
    return b"".join(parts)


def _rows(messages: Sequence[NewMessage], ids: Sequence[int], targets: Mapping[str, Target]) -> Iterator[bytes]:
    known: dict[Any, bytes] = {}
    pack = OWN.pack
    for message, id_ in zip(messages, ids, strict=True):
        kind = _kind(message)
        common = known.get(kind)
        if common is None:
            common = known[kind] = targets[message.queue_name].beginning(message.priority) + _texts(message)
        body = message.body
        yield common + pack(8, id_, 16, message.message_id.bytes, len(body)) + body


#: What decides the common part.
_kind = attrgetter(
    *("queue_name", "priority", "headers", "type", "correlation_id", "group_key", "content_type"),
    *("content_encoding", "properties"),
)


def _texts(message: NewMessage) -> bytes:
    values = [
        message.type,
        message.correlation_id,
        message.group_key,
        message.content_type,
        message.content_encoding,
    ]
    return b"".join([*map(_text, values), _json(message.headers), _json(message.properties)])


def _text(value: str | None) -> bytes:
    return NULL if value is None else _value(value.encode())


def _json(value: str | None) -> bytes:
    # The binary format of jsonb is a version, 1, and the text.
    return NULL if value is None else _value(b"\x01" + value.encode())


def _value(encoded: bytes) -> bytes:
    return LENGTH.pack(len(encoded)) + encoded
