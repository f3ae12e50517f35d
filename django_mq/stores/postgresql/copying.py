"""Messages for COPY: the rows that psycopg writes in PostgreSQL's binary format.

Most of a row is the same for all messages of a batch. That part is made once for each kind of message; a message
adds its times if it has any, its id, its message id, and its body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions import declared
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.places import MOST_LEVELS, level_of, levels_of, place_at
from django_mq.engine.states import State
from django_mq.stores.sql.publications import is_ready_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django_mq.stores.records import NewMessage, Times

#: From so many messages on, two more round trips cost less than COPY saves.
WORTH_COPYING = 50
#: The values of a row, as parts of a message's columns: see ``_copied`` in publish.sql.
Values = tuple[Any, ...]
#: How psycopg writes these columns. In the binary format a time is a number of microseconds, and a message id is
#: bytes, as JSON is behind the number of its version: so nothing is converted for each message.
TYPES = [
    *("int8", "int8", "int2", "int2", "int4", "bool", "bool", "text"),
    *("text", "text", "text", "text", "text", "text", "bytea", "bytea", "int8"),
    *("int2", "int8", "int8", "int8"),
]
#: Where the place stands among the values.
PLACE = 18
JSON_VERSION = b"\x01"
#: Attempts, redelivered, suspect and reason of a new message.
FRESH = (0, False, False, "")
#: State, place and time of a message without a time of delivery.
AT_ONCE = (State.READY.value, 0, None)
#: Microseconds from 1970 to 2000, where PostgreSQL's time begins.
SINCE_2000 = 946_684_800_000_000


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

    def common(self, message: NewMessage) -> Values:
        """Return the columns up to what the message meets, which all messages of a kind share."""
        level = level_of(message.priority, levels_of(self.kind, self.levels))
        meets = declared.UNASKED if self.has_selectors else None  # it is asked next
        begun = (self.queue_id, self.published_at, level, message.priority, *FRESH)
        return (*begun, *TEXTS(message), *map(_json, JSON(message)), meets)

    def times(self, due: int | None = None, end: int | None = None) -> Values:
        """Return state, place and both times of a message, given in microseconds since 1970."""
        expiry: Any = self.lifetime.end(None if end is None else end - SINCE_2000, self.published_at)
        return (*(AT_ONCE if due is None else self._due(due)), expiry)

    def _due(self, at: int) -> Values:
        state = State.SCHEDULED if at - SINCE_2000 > self.published_at else State.READY
        return state.value, place_at(at, due_first=self.due_order == "due_first"), at - SINCE_2000


def is_worth_copying(messages: Sequence[NewMessage]) -> bool:
    """Whether these are many, and COPY, which has no expressions for times, can write them."""
    return len(messages) >= WORTH_COPYING and all(map(is_ready_at_once, messages))


def rows(
    messages: Sequence[NewMessage], ids: Sequence[int], targets: Mapping[str, CopyTarget]
) -> Iterator[Values]:
    """Yield the rows of messages that are ready at once, with their row ids."""
    known: dict[Any, Values] = {}
    for message, id_ in zip(messages, ids, strict=True):
        kind = KIND(message)
        common = known.get(kind)
        if common is None:
            target = targets[message.queue_name]
            common = known[kind] = (*target.common(message), *target.times())
        if message.place is None:
            yield (*common, id_, message.message_id.bytes, message.body)
        else:
            own = (*common[:PLACE], message.place, *common[PLACE + 1 :])
            yield (*own, id_, message.message_id.bytes, message.body)


def rows_alike(
    like: NewMessage,
    message_ids: Sequence[bytes],
    bodies: Sequence[bytes],
    target: CopyTarget,
    times: Times | None,
) -> Iterator[Values]:
    """Yield the rows of messages that are alike but for their times; the table gives their row ids."""
    common = target.common(like)
    moments: Iterable[Values] = repeat(target.times(), len(bodies))
    if times is not None:
        moments = map(target.times, times.deliver_at, times.expires_at)
    for moment, id_, body in zip(moments, message_ids, bodies, strict=True):
        yield (*common, *moment, id_, body)


def write(cursor: Any, text: str, given: Iterable[Values], *, with_ids: bool) -> None:
    """Run a COPY that writes these rows."""
    with cursor.copy(text) as copy:
        copy.set_types([*TYPES, *["int8"] * with_ids, "bytea", "bytea"])
        for row in given:
            copy.write_row(row)


TEXTS = attrgetter("type", "correlation_id", "group_key", "content_type", "content_encoding", "told_to")
JSON = attrgetter("headers", "properties")
#: The fields that decide the common part.
KIND = attrgetter(
    *("queue_name", "priority", "headers", "type", "correlation_id", "group_key", "content_type"),
    *("content_encoding", "properties", "told_to"),
)


def _json(text: str | None) -> bytes | None:
    return None if text is None else JSON_VERSION + text.encode()
