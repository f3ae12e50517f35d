"""Rows to Arrow, page by page.

A partition is a range of ids, read in pages that each begin after the last id of the
page before. So no cursor is held open on the server, no transaction lasts longer than a
page, and a connection pooler does no harm. A page is bounded in rows and, if it has headers or
bodies, in bytes: the database is asked for their sizes first. Drivers return different types (a time is
a text, a naive or an aware datetime, a number); a column is converted by the type of its first value.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from django.db.models import Max, Min, Q, TextField
from django.db.models.functions import Cast, Coalesce, Length

from django_mq.stores.postgresql.copying import SINCE_2000
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django.db.models import QuerySet

    from django_mq.pipeline.datasets import Column, Dataset

#: Rows of one statement, and of one Arrow batch.
PAGE = 20_000
#: Bytes of headers and bodies of one page; a row with more is a page of its own. Arrow takes less than 2 GiB.
PAGE_BYTES = 16 * 1024 * 1024
#: The most parts of a read by default; each holds a connection.
MOST_PARTS = 8

ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of the batches; every column is nullable, as in Spark's declared schema."""
    return pa.schema([pa.field(column.name, ARROW[column.type]) for column in columns])


def id_ranges(first: int | None, last: int | None, parts: int) -> list[tuple[int, int]]:
    """Divide the ids from ``first`` to ``last`` into at most ``parts`` ranges; an empty list without ids.

    >>> id_ranges(1, 10, 3)
    [(1, 4), (5, 8), (9, 10)]
    """
    if first is None or last is None or last < first:
        return []
    size = -(-(last - first + 1) // max(1, parts))
    return [(start, min(start + size - 1, last)) for start in range(first, last + 1, size)]


def enough_parts(first: int | None, last: int | None) -> int:
    """Return the default number of parts: none smaller than a page, and eight at most."""
    return 1 if first is None or last is None else min(MOST_PARTS, 1 + (last - first) // PAGE)


def bounds(dataset: Dataset, alias: str) -> tuple[int | None, int | None]:
    """Return the lowest and the highest id, from the two ends of the primary key."""
    rows = dataset.rows(alias)
    return rows.aggregate(least=Min("id"))["least"], rows.aggregate(most=Max("id"))["most"]


def read(
    dataset: Dataset, columns: Sequence[Column], alias: str, ids: tuple[int, int], condition: Q | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of ids that meet the condition, in order of id."""
    schema = arrow_schema(columns)
    rows = dataset.rows(alias).filter(condition or Q()).order_by("id")
    fields = ["id", *(column.field for column in columns)]
    heavy = [column.field for column in columns if column.is_heavy]
    for piece in _bounded(rows, heavy, ids, alias) if heavy else [ids]:
        for found in _pages(rows, fields, piece, alias):
            _, *values = zip(*found, strict=True)
            arrays = [convert(column, list(value)) for column, value in zip(columns, values, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pages(
    rows: QuerySet[Any], fields: Sequence[Any], ids: tuple[int, int], alias: str
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a range of ids, ``PAGE`` of them at a time. The id is the first field."""
    first, last = ids
    while first <= last:
        found = _fetch(rows.filter(id__gte=first, id__lte=last).values_list(*fields)[:PAGE], alias)
        if found:
            yield found
        if len(found) < PAGE:
            return
        first = found[-1][0] + 1


def _bounded(
    rows: QuerySet[Any], heavy: Sequence[str], ids: tuple[int, int], alias: str
) -> Iterator[tuple[int, int]]:
    """Divide a range of ids into ranges with at most ``PAGE_BYTES`` in the heavy fields, or with one row."""
    sizes = [Length(field if field == "body" else Cast(field, TextField())) for field in heavy]
    size = sum((Coalesce(each, 0) for each in sizes[1:]), Coalesce(sizes[0], 0))
    first, held, last = ids[0], 0, None
    for page in _pages(rows.annotate(size=size), ["id", "size"], ids, alias):
        for number, taken in page:
            if last is not None and held + taken > PAGE_BYTES:
                yield first, last
                first, held = number, 0
            held, last = held + taken, number
    if last is not None:
        yield first, last


def _fetch(page: Any, alias: str) -> list[tuple[Any, ...]]:
    """Return the driver's values, because the ORM's converters would take most of the time."""
    store: Any = shared_store(alias)
    rows: list[tuple[Any, ...]] = store.database.fetch(*page.query.get_compiler(using=alias).as_sql())
    return rows


def convert(column: Column, values: list[Any]) -> pa.Array:
    """Return a driver's values as an Arrow array of the column's type."""
    kind = ARROW[column.type]
    if column.words is not None:
        return pa.array(map(column.words.get, values), pa.string())
    sample = next((value for value in values if value is not None), None)
    if sample is None:
        return pa.nulls(len(values), kind)
    converted = CONVERTERS[column.type](values, sample, kind)
    # A database without a UUID type keeps 32 digits; with one, the driver may return 16 bytes.
    bare = column.name == "message_id" and isinstance(sample, str | bytes) and len(sample) in {16, 32}
    return with_hyphens(converted) if bare else converted


def _numbers(values: list[Any], _: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def _times(values: list[Any], sample: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(sample, int):
        return pc.add(pa.array(values, pa.int64()), SINCE_2000).cast(kind)
    if isinstance(sample, str):
        return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(kind)
    if isinstance(sample, datetime) and sample.tzinfo is None:
        return pa.array(values, pa.timestamp("us")).cast(kind)
    return pa.array(values, kind)


def _texts(values: list[Any], sample: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(sample, str):
        return pa.array(values, kind)
    if isinstance(sample, bytes):
        return _each(bytes.hex, values, sample, kind)
    return _each(json.dumps if isinstance(sample, dict | list) else str, values, sample, kind)


def _each(act: Callable[[Any], Any], values: list[Any], _: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else act(value) for value in values], kind)


CONVERTERS: dict[str, Callable[[list[Any], Any, pa.DataType], pa.Array]] = {
    "bigint": _numbers,
    "int": _numbers,
    "timestamp": _times,
    "string": _texts,
    "boolean": partial(_each, bool),
    "binary": partial(_each, bytes),
}


def with_hyphens(ids: pa.Array) -> pa.Array:
    """Return UUIDs of 32 digits in their usual format."""
    cuts = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    parts = [pc.utf8_slice_codeunits(ids, start, stop) for start, stop in cuts]
    return pc.binary_join_element_wise(*parts, "-")
