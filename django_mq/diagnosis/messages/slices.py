"""How far a table is looked through: what matches, found in a time that neither filters nor data decide.

The rows are looked through from the newest on, a slice at a time, until enough are found, none is left, or
patience ends: then the answer says how far it has come, and whoever asked may look further from there. A slice is
a range of keys, so that no statistics, right, old or none, can make a database read more than that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

#: Rows in the first slice, and in the largest: each is twice the one before.
SLICE, LARGEST_SLICE = 25_000, 100_000
#: Seconds after which no further slice is begun: with what a page takes beside, 300 ms.
PATIENCE = 0.1
#: Filter that bounds what is looked at from above: where an earlier look has ended.
BEFORE = "before"


class Look(NamedTuple):
    """What was found, in the order of the list."""

    ids: list[Any]
    #: Whether nothing that matches was left out, but for the number asked for.
    whole: bool = True
    #: The key below which none was looked at, where there are such; None where looking further finds no more.
    down_to: int | None = None


def as_listed(rows: QuerySet[Any], limit: int) -> Look:
    """Leave it to the database: for what an index answers, or what is bounded in itself."""
    return Look(list(rows.values_list("pk", flat=True)[:limit]))


def newest(rows: QuerySet[Any], limit: int, before: str = "", *, patience: float | None = None) -> Look:
    """Return the newest rows, as many as are found in slices while patience lasts; always in the first slice."""
    if rows.query.is_empty() or not rows.query.where:
        return as_listed(rows, limit)
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    ids: list[Any] = []
    for slice_, down_to in _slices(rows, int(before[:18]) if before.isdecimal() else None):
        ids += slice_.values_list("pk", flat=True)[: limit - len(ids)]
        if len(ids) >= limit or down_to is None:
            break
        if time.monotonic() >= end:
            return Look(ids, whole=False, down_to=down_to)
    return Look(ids)


def _slices(rows: QuerySet[Any], top: int | None) -> Iterator[tuple[QuerySet[Any], int | None]]:
    """Yield the rows a slice at a time, the newest first, each with the key it ends at; None: the last."""
    every = rows.model._base_manager.using(rows.db).order_by("-pk").values_list("pk", flat=True)  # noqa: SLF001 - a model's way to all its rows
    rows, size = rows.order_by("-pk"), SLICE
    while True:
        keys, part = (every, rows) if top is None else (every.filter(pk__lt=top), rows.filter(pk__lt=top))
        following = next(iter(keys[size : size + 1]), None)
        if following is None:
            yield part, None
            return
        top, size = following + 1, min(2 * size, LARGEST_SLICE)
        yield part.filter(pk__gte=top), top
