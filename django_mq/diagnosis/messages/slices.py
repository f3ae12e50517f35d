"""Looks through a table in bounded time, with any filters.

Rows are read from the newest on, slice by slice, until enough are found, none is left, or the time is over. The
answer then says where to continue. A slice is a range of keys, so that wrong statistics cannot make a database
read more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.db.models import QuerySet

#: Rows in the first slice, and in the largest. Each slice is twice as large as the one before.
SLICE, LARGEST_SLICE = 25_000, 100_000
#: Seconds after which no further slice is begun.
PATIENCE = 0.1
#: The filter for where an earlier look has ended.
BEFORE = "before"


class FoundKeys(NamedTuple):
    """The keys found, in the order of the list."""

    ids: list[Any]
    #: Whether these are all matches, up to the limit.
    is_complete: bool = True
    #: The key below which rows were not read; None if there are none.
    down_to: int | None = None


def as_listed(rows: QuerySet[Any], limit: int) -> FoundKeys:
    """Return the first rows in one statement: for filters that an index answers."""
    return FoundKeys(list(rows.values_list("pk", flat=True)[:limit]))


def among(keys: Sequence[Any], rows: QuerySet[Any], limit: int) -> FoundKeys:
    """Return those of these keys that the rows still have, in the order of the list."""
    return as_listed(rows.filter(pk__in=keys), limit)


def newest(rows: QuerySet[Any], limit: int, before: str = "", *, patience: float | None = None) -> FoundKeys:
    """Return the newest rows that are found within ``patience`` seconds. The first slice is always read."""
    if rows.query.is_empty() or not rows.query.where:
        return as_listed(rows, limit)
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    ids: list[Any] = []
    for slice_, down_to in slices_of(rows, int(before[:18]) if before.isdecimal() else None):
        ids += slice_.values_list("pk", flat=True)[: limit - len(ids)]
        if len(ids) >= limit or down_to is None:
            break
        if time.monotonic() >= end:
            return FoundKeys(ids, is_complete=False, down_to=down_to)
    return FoundKeys(ids)


def slices_of(
    rows: QuerySet[Any], top: int | None, *, size: int | None = None, largest: int | None = None
) -> Iterator[tuple[QuerySet[Any], int | None]]:
    """Yield the rows slice by slice, the newest first, each with its last key; None for the last slice.

    ``size`` is that of the first slice.
    """
    every = rows.model._base_manager.using(rows.db).order_by("-pk").values_list("pk", flat=True)  # noqa: SLF001 - all rows
    rows, size, largest = rows.order_by("-pk"), size or SLICE, largest or LARGEST_SLICE
    while True:
        keys, part = (every, rows) if top is None else (every.filter(pk__lt=top), rows.filter(pk__lt=top))
        following = next(iter(keys[size : size + 1]), None)
        if following is None:
            yield part, None
            return
        top, size = following + 1, min(2 * size, largest)
        yield part.filter(pk__gte=top), top
