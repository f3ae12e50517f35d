"""Convert the rows of a DataFrame to messages, with the checks of ``publish``.

Most rows of a batch differ only in their bodies, ids and times. Arrow compares the columns of
all rows at once; Python works once for each group of equal rows, and once for each body that has to be JSON.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from django_mq.errors import WrongColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from django_mq.delivery.publisher import OutgoingMessage
    from django_mq.stores.records import Times

#: The columns for a message, each with the types that it may have. A binary body is published as it is; a text
#: has its content type, by default JSON.
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
#: The column of Spark's signatures, and the modulus of their sums.
SIGNATURE, WORD = "_signature", 2**64
TEXT, BYTES = "application/json", "application/octet-stream"
#: Columns that may differ within a group, as bodies may.
ID, TIMES = "message_id", ("deliver_at", "expires_at")
OWN = (ID, *TIMES)
#: The format of nearly all ids; messages with other formats are published one by one.
USUAL_ID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
#: EARLIEST and LATEST of delivery/validation.py, in microseconds since 1970.
FIRST_MOMENT, LAST_MOMENT = -62_135_510_400_000_000, 253_402_128_000_000_000
#: A group of fewer rows is not worth its own statement.
WORTH_ROWS = 8

#: Finds where a JSON value ends. The attribute is as old as the module, but the type stubs do not have it.
_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


def check_columns(types: Iterable[tuple[str, str]]) -> None:
    """Return if these columns make messages. Raises WrongColumns."""
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


def outgoing_messages(batch: pa.RecordBatch) -> Iterator[OutgoingMessage]:
    """Yield the batch's messages. Raises WrongColumns for a row without a queue or with a body that is no JSON."""
    names = batch.schema.names
    for values in rows(batch):
        yield outgoing_message(dict(zip(names, values, strict=True)))


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def outgoing_message(row: dict[str, Any]) -> OutgoingMessage:
    """Return a row's message. Raises WrongColumns."""
    from django_mq.delivery.publisher import OutgoingMessage

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
    return OutgoingMessage(**given, body=body, content_type=kind)


def _checked(body: Any) -> bytes:
    """Return a JSON body unchanged. Raises WrongColumns if it is no JSON."""
    if body is None:
        return b"null"
    _json(body, "body is")
    return body.encode() if isinstance(body, str) else bytes(body)


def _json(text: Any, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _no_json(what, text) from None


def _no_json(what: str, text: Any) -> WrongColumns:
    return WrongColumns(
        f"A row's {what} no JSON: {str(text)[:60]!r}; write it with to_json(), or give its content_type."
    )


def signature(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    """Return a sum over the rows that does not depend on their order, and the batch without Spark's signatures.

    If Spark has signed the rows, ten times as fast, its sum is used. Sums wrap, and are compared modulo WORD.
    """
    if SIGNATURE not in batch.schema.names:
        return sum(zlib.crc32(repr(row).encode("utf-8", "surrogatepass")) for row in rows(batch)), batch
    # With NumPy, which wraps around; Arrow does not promise it.
    return int(batch.column(SIGNATURE).to_numpy().sum()), batch.drop_columns([SIGNATURE])


def signed(frame: DataFrame) -> DataFrame:
    """Return the frame with a signature of each row; a null counts, so values cannot change their columns."""
    from pyspark.sql import functions as f

    parts = [part for name in sorted(frame.columns) for part in (f.col(name), f.isnull(name))]
    return frame.withColumn(SIGNATURE, f.xxhash64(*parts))


def publish(batch: pa.RecordBatch, alias: str) -> None:
    """Publish the batch's rows. Raises WrongColumns, and the errors of ``publish``."""
    from django_mq.delivery.batch import publish_batch
    from django_mq.delivery.publisher import publish_many

    divided = groups(batch)
    if divided is None:
        publish_many(outgoing_messages(batch), using=alias)
        return
    for numbers in divided:
        rows = batch.take(numbers)
        like, bodies = _alike(rows)
        if bodies is None or not _are_usual(rows):
            publish_many(outgoing_messages(rows), using=alias)
        else:
            publish_batch(like, bodies, message_ids=_ids(rows), times=_times(rows), using=alias)


def groups(batch: pa.RecordBatch) -> list[NDArray[Any]] | None:
    """Return the row numbers of each group; None if there are too many groups for a statement each."""
    import numpy as np
    import pyarrow.compute as pc

    names = batch.schema.names
    key = pc.is_null(batch.column("body")).to_numpy(zero_copy_only=False).astype(np.int64)
    for name in set(names) - {"body", *OWN}:
        codes = pc.fill_null(batch.column(name).dictionary_encode().indices, -1).to_numpy().astype(np.int64)
        _, key = np.unique(key * (codes.max(initial=0) + 2) + codes + 1, return_inverse=True)
    count = int(key.max(initial=0)) + 1
    if count * WORTH_ROWS > batch.num_rows + WORTH_ROWS:
        return None
    order = np.argsort(key, kind="stable")
    return np.split(order, np.searchsorted(key[order], np.arange(1, count)))


def _alike(rows: pa.RecordBatch) -> tuple[OutgoingMessage, Sequence[bytes] | None]:
    """Return the common part of the rows, and their bodies; None for bodies to publish one by one."""
    import pyarrow as pa

    first = {name: rows.column(name)[0].as_py() for name in rows.schema.names if name not in OWN}
    like = outgoing_message(first)
    bodies: list[bytes | None] = rows.column("body").cast(pa.binary()).to_pylist()
    if first["body"] is None:
        return like, [b"null"] * len(bodies) if like.content_type == TEXT else None
    known = [body for body in bodies if body is not None]
    if like.content_type == TEXT:
        check_json(known)
    return like, known


def _are_usual(rows: pa.RecordBatch) -> bool:
    """Whether all ids have the usual format, and all times are in the calendar; else rows are checked alone."""
    import pyarrow.compute as pc

    given = {name for name in OWN if name in rows.schema.names and rows.column(name).null_count < rows.num_rows}
    if ID in given and pc.all(pc.match_substring_regex(rows.column(ID), USUAL_ID)).as_py() is False:
        return False
    ends = [pc.min_max(_microseconds(rows, name)).as_py() for name in TIMES if name in given]
    return all(end["min"] >= FIRST_MOMENT and end["max"] <= LAST_MOMENT for end in ends)


def _ids(rows: pa.RecordBatch) -> list[bytes | None] | None:
    """Return the 16 bytes of each id; None if no row has one."""
    if ID not in rows.schema.names or rows.column(ID).null_count == rows.num_rows:
        return None
    texts = rows.column(ID).to_pylist()
    return [None if text is None else bytes.fromhex(text.replace("-", "")) for text in texts]


def _times(rows: pa.RecordBatch) -> Times | None:
    """Return the times of each message; None if no row has any."""
    from django_mq.stores.records import Times

    given = [name for name in TIMES if name in rows.schema.names]
    if all(rows.column(name).null_count == rows.num_rows for name in given):
        return None
    none = [None] * rows.num_rows
    return Times(*(_microseconds(rows, name).to_pylist() if name in given else none for name in TIMES))


def _microseconds(rows: pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    column = rows.column(name)
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())


def check_json(bodies: Sequence[bytes]) -> None:
    """Return if all bodies are JSON. Raises WrongColumns."""
    for body in bodies:
        try:
            if not _is_bare_json(text := body.decode()):
                json.loads(text)
        except (ValueError, RecursionError):
            raise _no_json("body is", body[:60].decode("utf-8", "replace")) from None


def _is_bare_json(text: str) -> bool:
    """Whether the text is JSON without space around it, in half the time of a check with space."""
    try:
        return bool(_scan(text, 0)[1] == len(text))
    except StopIteration:
        return False
