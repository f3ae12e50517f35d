"""Messages as JSON lines, for programs, or as CSV, for spreadsheets.

A file may have millions of messages, so they are read step by step:

    ids by their key, SLICE after SLICE  ->  rows by their ids, BATCH or BATCH_BYTES at once  ->  lines

Filters run once for each slice, so a filter without an index costs little more than one scan of the table.
Messages that arrive meanwhile are left out.
"""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.db.models import Max, TextField, Value
from django.db.models.functions import Cast, Length

from django_mq.diagnosis.messages.json_objects import as_json, written
from django_mq.models import Message
from django_mq.stores.records import Browsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django.db.models import QuerySet

#: Ids that one statement finds.
SLICE = 50_000
#: Messages that one statement reads, and bytes of their bodies. A larger body is read alone.
BATCH = 500
BATCH_BYTES = 4 * 1024 * 1024
#: Characters with which a formula may begin.
FORMULA = frozenset("=+-@\t\r\n")
#: Fields of Browsed, except headers and body, with their columns.
FIELDS = {"id": "pk", "message_id": "message_id", "queue_name": "queue__name"} | {
    name: name
    for name in (
        *("state", "priority", "attempts", "published_at", "deliver_at", "expires_at", "type"),
        *("correlation_id", "group_key", "content_type", "content_encoding", "dead_reason"),
    )
}
#: The columns of the CSV file: keys of the JSON objects.
COLUMNS = (
    *("message_id", "row", "queue", "state", "priority", "attempts", "published_at", "deliver_at", "type"),
    *("correlation_id", "group_key", "content_type", "dead_reason", "headers", "body", "body_base64"),
)


def json_lines(rows: QuerySet[Message], *, limit: int | None = None) -> Iterator[str]:
    """Yield a line with a JSON object for each message, the oldest first."""
    for message in _messages(rows, limit):
        yield as_json(message) + "\n"


def csv_lines(rows: QuerySet[Message], *, limit: int | None = None) -> Iterator[str]:
    """Yield the heading, then a line for each message, the oldest first.

    An apostrophe is put before a cell that looks like a formula.
    """
    yield _line(COLUMNS)
    for message in _messages(rows, limit):
        yield written(message, lambda found: _line([_cell(found.get(name)) for name in COLUMNS]))


#: The functions, by the extension of the file.
FORMS: dict[str, Callable[..., Iterator[str]]] = {"jsonl": json_lines, "csv": csv_lines}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    sendable = text.encode("utf-8", "backslashreplace").decode()  # UTF-8 cannot encode a lone surrogate
    return f"'{sendable}" if sendable[:1] in FORMULA else sendable


def _line(cells: Sequence[str]) -> str:
    text = StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue()


def _messages(rows: QuerySet[Message], limit: int | None) -> Iterator[Browsed]:
    ids = islice(_ids(rows), limit)
    while batch := list(islice(ids, BATCH)):
        for part in _parts(batch, rows.db):
            yield from read(part, rows.db)


def _ids(rows: QuerySet[Message]) -> Iterator[int]:
    newest: int = Message.objects.using(rows.db).aggregate(newest=Max("pk"))["newest"] or 0
    found, last = rows.filter(pk__lte=newest).order_by("pk").values_list("pk", flat=True), 0
    while ids := list(found.filter(pk__gt=last)[:SLICE]):
        yield from ids
        last = ids[-1]


def _parts(ids: Iterable[int], alias: str) -> Iterator[list[int]]:
    """Divide ids so that the bodies of each part fit into memory."""
    sizes = Message.objects.using(alias).filter(pk__in=ids).order_by("pk").values_list("pk", Length("body"))
    part: list[int] = []
    total = 0
    for pk, size in sizes:
        if part and total + size > BATCH_BYTES:
            yield part
            part, total = [], 0
        part.append(pk)
        total += size
    if part:
        yield part


def read(ids: Sequence[int], alias: str) -> list[Browsed]:
    """Return the messages with these ids, one by one if SQLite refuses headers that are not text."""
    try:
        return _fetched(ids, alias, Cast("headers", TextField()))
    except (DatabaseError, ValueError):
        if len(ids) == 1:
            return _fetched(ids, alias, Value("\N{REPLACEMENT CHARACTER}"))
        return [message for one in ids for message in read([one], alias)]


def _fetched(ids: Sequence[int], alias: str, headers: Any) -> list[Browsed]:
    rows = Message.objects.using(alias).filter(pk__in=ids).order_by("pk").annotate(stored=headers)
    return [_browsed(*row) for row in rows.values_list("stored", "body", *FIELDS.values())]


def _browsed(headers: str, body: Any, *others: Any) -> Browsed:
    # SQLite may have text in a binary column.
    data = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else bytes(body)
    return Browsed(headers=headers, body=data, **dict(zip(FIELDS, others, strict=True)))
