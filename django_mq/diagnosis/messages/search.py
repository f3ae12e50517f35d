"""One search over live messages, the history and failed attempts, the newest first, in bounded time.

Ids are found by their indexes, however old they are. For other words, each table is read slice by slice until
enough is found or the time is over; the answer says from where to go on. Bytes of bodies are compared in the
database, so capital letters count there. What was found is then checked against what may be shown: nothing that
MASK hides, and nothing encrypted, can be found.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.db import DatabaseError, transaction
from django.db.models import BinaryField, BooleanField, F, Func, Q, TextField, Value
from django.db.models.functions import Cast, Left, Lower, Substr

from django_mq import conf
from django_mq.delivery.codecs import ENCRYPTED, key_of
from django_mq.diagnosis.messages import masking, slices
from django_mq.diagnosis.messages.life import id_in
from django_mq.diagnosis.messages.terms import HEADER
from django_mq.models import Attempt, History, Message

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.db.models import QuerySet
    from django.db.models.sql.compiler import SQLCompiler

#: Seconds after which no further slice is begun, and the bound of a statement.
SECONDS: Final = 1.0
#: The most messages of an answer.
MOST: Final = 50
#: Bytes of a body, and characters of headers and errors, that are searched.
SEARCHED: Final = 65_536
#: Rows in the first slice, and in the largest: less than for a list, because bodies are read.
SLICE, LARGEST_SLICE = 1_000, 16_000
#: The name, beside those of the tables, for how many messages with a search key were shown.
KEYS: Final = "keys"
#: The fewest characters to look for in texts.
SHORTEST: Final = 3
#: The tables, and the field with the time of a row.
TABLES: Final[Mapping[str, tuple[Any, str]]] = {
    "live": (Message, "published_at"),
    "past": (History, "finished_at"),
    "failed": (Attempt, "failed_at"),
}


#: The columns of texts, in which capital letters do not count.
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "live": ("type", "dead_reason"),
    "past": ("type",),
    "failed": ("error", "error_path", "detail"),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found."""

    #: live, past or failed.
    table: str
    row: Any
    time: datetime
    #: What has the words: id, key, type, header, body or error.
    where: str

    @property
    def message_id(self) -> UUID | None:
        return self.row.message_id or id_in(self.row.correlation_id)


@dataclass(slots=True)
class SearchResult:
    """The answer of a search."""

    hits: list[Hit] = field(default_factory=list)
    #: By table: the key below which rows were not read. KEYS: how many messages with a search key were read.
    left: dict[str, int] = field(default_factory=dict)
    #: By table: how far back the rows were read.
    back_to: dict[str, datetime | None] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        return not self.left


class HasBytes(Func):
    """Whether the beginning of a column has these bytes."""

    output_field = BooleanField()
    template = "position(%(expressions)s) > 0"
    arg_joiner = " in "

    def __init__(self, needle: bytes, column: str) -> None:
        super().__init__(
            Value(needle, output_field=BinaryField()), Substr(column, 1, SEARCHED, output_field=BinaryField())
        )

    def as_mysql(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        """Compare bytes and not characters."""
        return self.as_sql(compiler, connection, template="LOCATE(%(expressions)s) > 0", arg_joiner=", ", **extra)

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        """Give the column first."""
        swapped = self.copy()
        swapped.set_source_expressions(list(reversed(self.get_source_expressions())))
        return Func.as_sql(
            swapped, compiler, connection, template="instr(%(expressions)s) > 0", arg_joiner=", ", **extra
        )


def search(
    words: str,
    tables: Mapping[str, QuerySet[Any]],
    *,
    seconds: float = SECONDS,
    below: Mapping[str, int] | None = None,
) -> SearchResult:
    """Return what has these words in the rows of ``tables``: those that the user may view, by the names of TABLES.

    ``below`` says where an earlier search has ended: then ids and keys are not looked for again.
    """
    begin, found = time.monotonic(), SearchResult()
    words = words.strip()
    if below is None:
        found.hits += _identified(words, tables)
    if below is None or KEYS in below:
        found.hits += _keyed(words, tables, found, (below or {}).get(KEYS, 0))
    if len(words) >= SHORTEST and id_in(words) is None:
        looks = {
            name: _Look(name, rows, words, (below or {}).get(name))
            for name, rows in tables.items()
            if below is None or name in below
        }
        _look(list(looks.values()), begin + seconds)
        for name, look in looks.items():
            found.hits += look.hits
            if look.left is not None:
                found.left[name] = look.left
                found.back_to[name] = look.back_to()
    found.hits = _once(found.hits)
    found.seconds = time.monotonic() - begin
    return found


def _identified(words: str, tables: Mapping[str, QuerySet[Any]]) -> Iterator[Hit]:
    """Yield the rows with this id."""
    message_id = id_in(words)
    wanted = [Q(correlation_id=words), *([Q(message_id=message_id)] if message_id else [])]
    for name, rows in tables.items():
        for condition in wanted:
            yield from _hits(name, rows.filter(condition), "id")


def _keyed(words: str, tables: Mapping[str, QuerySet[Any]], found: SearchResult, first: int) -> Iterator[Hit]:
    """Yield the rows of messages that extensions find by these words, but for the first messages."""
    for keys in conf.extensions().searches if tables else ():
        ids = list(keys.find(next(iter(tables.values())).db, words)[first : first + MOST + 1])
        if len(ids) > MOST:
            found.left[KEYS] = first + MOST
        for name, rows in tables.items():
            yield from _hits(name, rows.filter(message_id__in=ids[:MOST]), "key") if ids else ()


def _hits(name: str, rows: QuerySet[Any], where: str) -> Iterator[Hit]:
    # The sum keeps a database from walking back through the table instead of reading the index of the id.
    for row in rows.order_by((F("pk") + 0).desc())[: 2 * MOST]:
        yield _hit(name, row, where)


def _hit(name: str, row: Any, where: str) -> Hit:
    return Hit(name, row, getattr(row, TABLES[name][1]), where)


def _once(hits: Sequence[Hit]) -> list[Hit]:
    """Return the newest hit of each message, in order; a live row before those that have left."""
    best: dict[Any, Hit] = {}
    for hit in hits:
        key = hit.message_id or (hit.table, hit.row.pk)
        other = best.get(key)
        if other is None or (hit.table == "live", hit.time) > (other.table == "live", other.time):
            best[key] = hit
    return sorted(best.values(), key=lambda hit: hit.time, reverse=True)


# Words in texts.


def _look(looks: Sequence[_Look], end: float) -> None:
    """Read a slice of each table in turn, until the time is over or nothing is left: of each one at least."""
    waiting = list(looks)
    while waiting:
        waiting = [look for look in waiting if look.step()]
        if time.monotonic() >= end:
            return


class _Look:
    """One table on the way back from its newest row."""

    def __init__(self, name: str, rows: QuerySet[Any], words: str, below: int | None) -> None:
        self.hits: list[Hit] = []
        #: The key below which rows were not read; None if all were.
        self.left: int | None = below
        self._name, self._words, self._header = name, words, HEADER.fullmatch(words)
        self._every = rows
        self._matching = _matching(name, rows, self._header[2] if self._header else words)
        self._slices = self._slices_below(below)

    def _slices_below(self, below: int | None) -> Iterator[tuple[QuerySet[Any], int | None]]:
        return slices.slices_of(self._matching, below, size=SLICE, largest=LARGEST_SLICE)

    def step(self) -> bool:
        """Read one slice. Return whether to read another one."""
        try:
            # A statement that was ended must not spoil the transaction of the page.
            with transaction.atomic(using=self._every.db):
                part, down_to = next(self._slices)
                keys = list(part.values_list("pk", flat=True)[: MOST + 1])
        except DatabaseError:
            self.left = self.left or _newest(self._every)
            return False
        self.hits += self._checked(keys[:MOST])
        if len(keys) > MOST:
            # Those that were not checked are in the next slice.
            down_to = keys[MOST - 1]
            self._slices = self._slices_below(down_to)
        self.left = down_to
        return down_to is not None and len(self.hits) < MOST

    def _checked(self, keys: Sequence[int]) -> list[Hit]:
        """Return the rows of which what may be shown has the words."""
        try:
            with transaction.atomic(using=self._every.db):
                rows = list(self._every.filter(pk__in=keys).annotate(**_texts(self._name)).order_by("-pk"))
        except (DatabaseError, ValueError):  # SQLite may have text that is no UTF-8
            return [hit for key in keys for hit in self._checked([key])] if len(keys) > 1 else []
        found = ((row, _where(self._name, row, self._words, self._header)) for row in rows)
        return [_hit(self._name, row, where) for row, where in found if where]

    def back_to(self) -> datetime | None:
        """Return how old the oldest row is that was read."""
        rows = self._every.filter(pk__gte=self.left).order_by("pk").values_list(TABLES[self._name][1], flat=True)
        return rows.first()


def _newest(rows: QuerySet[Any]) -> int:
    return (rows.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1


def _forms(words: str) -> set[str]:
    """Return the words as text has them, and as JSON has them."""
    return {words, json.dumps(words)[1:-1]}


def _matching(name: str, rows: QuerySet[Any], words: str) -> QuerySet[Any]:
    """Return the rows that have the words anywhere, also in what is hidden."""
    found = Q()
    # The collation of MariaDB's and MySQL's columns tells capital letters from small ones.
    for column in TEXTS[name]:
        rows = rows.alias(**{f"low_{column}": Lower(column)})
        found |= Q((f"low_{column}__contains", words.lower()))
    if name != "failed":
        rows = rows.alias(headers_text=Cast("headers", TextField()))
        for form in _forms(words):
            found |= Q(headers_text__contains=form) | Q(HasBytes(form.encode(), "body"))
    return rows.filter(found)


def _texts(name: str) -> dict[str, Any]:
    """Return what is read of a row to check it: one byte more than is searched tells that a body is cut."""
    if name == "failed":
        return {}
    return {
        "headers_head": Left(Cast("headers", TextField()), SEARCHED),
        "body_head": Substr("body", 1, SEARCHED + 1, output_field=BinaryField()),
    }


def _where(name: str, row: Any, words: str, header: re.Match[str] | None) -> str | None:
    """Return what has the words, of what may be shown; None if nothing has."""
    for column in TEXTS[name]:
        if words.lower() in getattr(row, column).lower():
            return "type" if column == "type" else "error"
    if name == "failed":
        return None
    queue = row.queue.name if name == "live" else row.queue_name
    known = _decoded(row.headers_head)
    if known is not None and _has(masking.masked_headers(known, queue), words, header):
        return "header"
    body = _shown_body(row, name, queue)
    return "body" if body is not None and _has(body, words, header) else None


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def _shown_body(row: Any, name: str, queue: str) -> Any:
    """Return what may be shown of a body: JSON values, or text; None if nothing may."""
    stored = bytes(row.body_head or b"")
    if key_of(stored) is not None or (name == "live" and row.content_encoding == ENCRYPTED):
        return None
    is_cut = len(stored) > SEARCHED
    if is_cut and masking.is_masking():
        return None  # only a whole body can be masked
    text = stored.decode("utf-8", "replace")
    value = None if is_cut else _decoded(text)
    return masking.masked(text if value is None else value, queue)


def _has(value: Any, words: str, header: re.Match[str] | None) -> bool:
    """Whether a text has the words, or JSON values do, or have this field."""
    if isinstance(value, str) and words in value:
        return True
    if not isinstance(value, (dict, list)):
        return False
    try:
        if words in json.dumps(value, ensure_ascii=False) or words in _plain(value):
            return True
        return header is not None and _has_field(value, header[1], header[2])
    except (ValueError, RecursionError):
        return False


def _plain(value: Any) -> str:
    """Return the texts of JSON values as they are, each in a line."""
    if isinstance(value, dict):
        return "\n".join(f"{name}\n{_plain(inner)}" for name, inner in value.items())
    return "\n".join(map(_plain, value)) if isinstance(value, list) else as_text(value)


def as_text(value: Any) -> str:
    """Return a JSON value as an operator types it: ``4711``, ``true``."""
    return value if isinstance(value, str) else json.dumps(value)


def _has_field(value: Any, name: str, wanted: str) -> bool:
    if isinstance(value, dict):
        return any(
            (key == name and not isinstance(inner, (dict, list)) and as_text(inner) == wanted)
            or _has_field(inner, name, wanted)
            for key, inner in value.items()
        )
    return isinstance(value, list) and any(_has_field(inner, name, wanted) for inner in value)
