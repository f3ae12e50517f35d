"""Messages for COPY: rows in PostgreSQL's binary format.

Most of a row is the same for all messages of a batch. That part is made once for each kind of message; a message
adds its id, its message id, its body, and its times if it has any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions import declared
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.places import MOST_LEVELS, level_of, levels_of, place_at
from django_mq.engine.states import State
from django_mq.stores.sql.publications import is_ready_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.records import NewMessage, Times

#: From so many messages on, two more round trips cost less than COPY saves.
WORTH_COPYING = 50
#: What stands before and after the rows.
BEGINNING, END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
#: A value is its length and itself; no value is the length -1. A row begins with its number of columns.
LENGTH = Struct(">i")
NULL = LENGTH.pack(-1)
#: Columns of a row without the id, which the table gives then.
COLUMNS = 22
#: Number of columns. Queue, published at, level, priority.
BEGUN = Struct(">hiqiqihih")
#: Attempts, redelivered, suspect and reason of a new message.
FRESH = Struct(">iii?i?i").pack(4, 0, 1, False, 1, False, 0)
#: State, place and time of a message with a time of delivery, and of a message without.
DUE = Struct(">ihiqiq")
AT_ONCE = Struct(">ihiqi").pack(2, State.READY.value, 8, 0, -1)
TIME = Struct(">iq")
#: What a message meets of the selectors that its queue declares; it is asked next.
UNASKED = Struct(">iq").pack(8, declared.UNASKED)
#: Microseconds from 1970 to 2000, where PostgreSQL's time begins.
SINCE_2000 = 946_684_800_000_000
#: Id and message id, and the length of the body that follows; the same without the id.
OWN, OWN_WITHOUT_ID = Struct(">iqi16si"), Struct(">i16si")


@dataclass(slots=True)
class CopyTarget:
    """The queue of messages: its id, the time now in microseconds since 2000, and its options."""

    queue_id: int
    published_at: int
    kind: str = "priority"
    levels: int = MOST_LEVELS
    due_order: str = "due_first"
    min_ttl_seconds: float | None = None
    max_ttl_seconds: float | None = None
    ttl_seconds: float | None = None
    no_expiry: bool = False
    has_selectors: bool = False
    lifetime: Lifetime = field(init=False)

    def __post_init__(self) -> None:
        seconds = (self.min_ttl_seconds, self.max_ttl_seconds, self.ttl_seconds)
        least, most, usual = (None if each is None else round(each * 1_000_000) for each in seconds)
        self.lifetime = Lifetime(least, most, usual, self.no_expiry)

    def common(self, message: NewMessage, columns: int = COLUMNS) -> bytes:
        """Return the columns up to what the message meets, which all messages of a kind share."""
        priority = message.priority
        level = level_of(priority, levels_of(self.kind, self.levels))
        begun = BEGUN.pack(columns, 8, self.queue_id, 8, self.published_at, 2, level, 2, priority)
        texts = b"".join(map(_value, TEXTS(message))) + b"".join(map(_json, JSON(message)))
        return begun + FRESH + texts + (UNASKED if self.has_selectors else NULL)

    def times(self, due: int | None = None, end: int | None = None) -> bytes:
        """Return state, place and both times of a message, given in microseconds since 1970."""
        expiry: Any = self.lifetime.end(None if end is None else end - SINCE_2000, self.published_at)
        return self._due(due) + (NULL if expiry is None else TIME.pack(8, expiry))

    def _due(self, at: int | None) -> bytes:
        if at is None:
            return AT_ONCE
        state = State.SCHEDULED if at - SINCE_2000 > self.published_at else State.READY
        return DUE.pack(
            2, state.value, 8, place_at(at, due_first=self.due_order == "due_first"), 8, at - SINCE_2000
        )


def is_worth_copying(messages: Sequence[NewMessage]) -> bool:
    """Whether these are many, and COPY, which has no expressions for times, can write them."""
    return len(messages) >= WORTH_COPYING and all(map(is_ready_at_once, messages))


def rows(messages: Sequence[NewMessage], ids: Sequence[int], targets: Mapping[str, CopyTarget]) -> bytes:
    """Return the data for COPY of messages that are ready at once, with their row ids."""
    known: dict[Any, bytes] = {}
    parts, pack = [BEGINNING], OWN.pack
    for message, id_ in zip(messages, ids, strict=True):
        kind, body = KIND(message), message.body
        common = known.get(kind)
        if common is None:
            target = targets[message.queue_name]
            common = known[kind] = target.common(message, COLUMNS + 1) + target.times()
        parts += (common, pack(8, id_, 16, message.message_id.bytes, len(body)), body)
    parts.append(END)
    return b"".join(parts)


def rows_alike(
    like: NewMessage,
    message_ids: Sequence[bytes],
    bodies: Sequence[bytes],
    target: CopyTarget,
    times: Times | None,
) -> bytes:
    """Return the data for COPY of messages that are alike but for their times; the table gives their row ids."""
    common, parts, pack = target.common(like), [BEGINNING], OWN_WITHOUT_ID.pack
    moments: Iterable[bytes] = repeat(target.times(), len(bodies))
    if times is not None:
        moments = map(target.times, times.deliver_at, times.expires_at)
    for moment, id_, body in zip(moments, message_ids, bodies, strict=True):
        parts += (common, moment, pack(16, id_, len(body)), body)
    parts.append(END)
    return b"".join(parts)


TEXTS = attrgetter("type", "correlation_id", "group_key", "content_type", "content_encoding")
JSON = attrgetter("headers", "properties")
#: The fields that decide the common part.
KIND = attrgetter(
    *("queue_name", "priority", "headers", "type", "correlation_id", "group_key", "content_type"),
    *("content_encoding", "properties"),
)


def _value(text: str | None, before: bytes = b"") -> bytes:
    if text is None:
        return NULL
    encoded = before + text.encode()
    return LENGTH.pack(len(encoded)) + encoded


def _json(text: str | None) -> bytes:
    return _value(text, b"\x01")  # the binary format of jsonb is a version, 1, and the text
