"""From the rows of a DataFrame to messages, checked as every door checks them."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from django_mq.errors import WrongColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from django_mq.delivery.publishing import Letter

#: Columns that a message can be made of, and the types they may have. A body of bytes is taken as it is; one of
#: text is what its content type says: JSON, unless another is given.
COLUMNS: Mapping[str, frozenset[str]] = {
    "queue": frozenset({"string"}),
    "body": frozenset({"string", "binary"}),
    "content_type": frozenset({"string"}),
    "priority": frozenset({"tinyint", "smallint", "int", "bigint"}),
    "headers": frozenset({"string"}),
    "type": frozenset({"string"}),
    "correlation_id": frozenset({"string"}),
    "group_key": frozenset({"string"}),
    "message_id": frozenset({"string"}),
    "deliver_at": frozenset({"timestamp"}),
    "expires_at": frozenset({"timestamp"}),
}
NEEDED = ("queue", "body")
#: The column of Spark's signatures, and what their sums wrap around.
SIGNATURE, WORD = "_signature", 2**64
TEXT, BYTES = "application/json", "application/octet-stream"


def check_columns(types: Iterable[tuple[str, str]]) -> None:
    """Return if messages can be made of these columns. Raises WrongColumns."""
    given = dict(types)
    strange = sorted(set(given) - set(COLUMNS))
    missing = [name for name in NEEDED if name not in given]
    wrong = [name for name, kind in given.items() if name in COLUMNS and kind not in COLUMNS[name]]
    if missing:
        raise WrongColumns(f"The DataFrame has no column {' and none '.join(missing)}; a message needs both.")
    if strange:
        raise WrongColumns(f"A message has no {', '.join(strange)}; select only {', '.join(COLUMNS)}.")
    if wrong:
        name = wrong[0]
        raise WrongColumns(
            f"The column {name} is {given[name]}; it has to be {' or '.join(sorted(COLUMNS[name]))}."
        )


def letters(batch: pa.RecordBatch) -> Iterator[Letter]:
    """Yield the batch's messages. Raises WrongColumns for a row without a queue or a body that is no JSON."""
    names = batch.schema.names
    for values in rows(batch):
        yield letter(dict(zip(names, values, strict=True)))


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the batch's rows."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def letter(row: dict[str, Any]) -> Letter:
    """Return a row's message. Raises WrongColumns."""
    from django_mq.delivery.publishing import Letter

    if not row.get("queue"):
        raise WrongColumns("A row has no queue; nothing of its part was published.")
    given = {name: value for name, value in row.items() if value is not None}
    body, headers = given.pop("body", None), given.pop("headers", None)
    kind = given.pop("content_type", None) or (TEXT if isinstance(body, str) or body is None else BYTES)
    if headers is not None:
        given["headers"] = _json(headers, "headers are")
    if kind == TEXT:
        body = _checked(body)
    elif isinstance(body, str) and not kind.startswith("text/plain"):
        body = body.encode()
    return Letter(**given, body=body, content_type=kind)


def _checked(body: Any) -> bytes:
    """JSON goes out as it came in, if it is JSON."""
    if body is None:
        return b"null"
    _json(body, "body is")
    return body.encode() if isinstance(body, str) else bytes(body)


def _json(text: Any, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WrongColumns(
            f"A row's {what} no JSON: {str(text)[:60]!r}; write it with to_json(), or give its content_type."
        ) from None


def signature(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    """Return a sum over the rows that does not depend on their order, and the batch without Spark's signatures.

    Where Spark has signed the rows, ten times as fast, its sum is taken; sums wrap, and are compared modulo WORD.
    """
    if SIGNATURE not in batch.schema.names:
        return sum(zlib.crc32(repr(row).encode("utf-8", "surrogatepass")) for row in rows(batch)), batch
    # NumPy wraps around, as Arrow does not promise to.
    return int(batch.column(SIGNATURE).to_numpy().sum()), batch.drop_columns([SIGNATURE])


def signed(frame: DataFrame) -> DataFrame:
    """Return the frame with a signature of each row; nulls are told from values that follow them."""
    from pyspark.sql import functions as f

    parts = [part for name in sorted(frame.columns) for part in (f.col(name), f.isnull(name))]
    return frame.withColumn(SIGNATURE, f.xxhash64(*parts))
