"""Rows of a batch whose messages are alike: in everything but their bodies.

Columns are compared by Arrow, all rows at once; in Python, work is done once for each group
of them, and once for each body that has to be JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.errors import WrongColumns
from django_mq.pipeline.letters import TEXT, letter, letters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from django_mq.delivery.publishing import Letter

#: Columns in which every message is another one.
OWN = ("message_id", "deliver_at", "expires_at")
#: A group of fewer rows is not worth its own statement.
WORTH_ROWS = 8

#: Finds where a value ends. The attribute is as old as the module, and unknown to the type stubs.
_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


def publish(batch: pa.RecordBatch, alias: str) -> None:
    """Publish the batch's rows. Raises WrongColumns, and as ``publish`` does."""
    from django_mq.delivery.bulk import publish_alike
    from django_mq.delivery.publishing import publish_many

    divided = groups(batch)
    if divided is None:
        publish_many(letters(batch), using=alias)
        return
    for rows in divided:
        like, bodies = _alike(batch.take(rows))
        if bodies is None:
            publish_many(letters(batch.take(rows)), using=alias)
        else:
            publish_alike(like, bodies, using=alias)


def groups(batch: pa.RecordBatch) -> list[NDArray[Any]] | None:
    """Return the numbers of the rows of each group; None where nearly every row is one of its own."""
    import numpy as np
    import pyarrow.compute as pc

    names = batch.schema.names
    if any(name in names and batch.column(name).null_count < batch.num_rows for name in OWN):
        return None
    key = pc.is_null(batch.column("body")).to_numpy(zero_copy_only=False).astype(np.int64)
    for name in set(names) - {"body", *OWN}:
        codes = pc.fill_null(batch.column(name).dictionary_encode().indices, -1).to_numpy().astype(np.int64)
        _, key = np.unique(key * (codes.max(initial=0) + 2) + codes + 1, return_inverse=True)
    count = int(key.max(initial=0)) + 1
    if count * WORTH_ROWS > batch.num_rows + WORTH_ROWS:
        return None
    order = np.argsort(key, kind="stable")
    return np.split(order, np.searchsorted(key[order], np.arange(1, count)))


def _alike(rows: pa.RecordBatch) -> tuple[Letter, Sequence[bytes] | None]:
    """Return what the rows have in common, and their bodies; None for bodies that are best refused one by one."""
    import pyarrow as pa

    first = {name: column[0].as_py() for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    like = letter(first)
    bodies: list[bytes | None] = rows.column("body").cast(pa.binary()).to_pylist()
    if first["body"] is None:
        return like, [b"null"] * len(bodies) if like.content_type == TEXT else None
    known = [body for body in bodies if body is not None]
    if like.content_type == TEXT:
        check_json(known)
    return like, known


def check_json(bodies: Sequence[bytes]) -> None:
    """Return if all of them are JSON. Raises WrongColumns."""
    for body in bodies:
        try:
            if not _is_bare_json(text := body.decode()):
                json.loads(text)
        except (ValueError, RecursionError):
            shown = body[:60].decode("utf-8", "replace")
            raise WrongColumns(
                f"A row's body is no JSON: {shown!r}; write it with to_json(), or give its content_type."
            ) from None


def _is_bare_json(text: str) -> bool:
    """Whether it is JSON without space around it: in half the time of asking about the space, too."""
    try:
        return bool(_scan(text, 0)[1] == len(text))
    except StopIteration:
        return False
