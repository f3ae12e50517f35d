"""A database without a table or a column, as during a migration."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def mislaid(alias: str, table: str, column: str = "") -> Iterator[None]:
    """Rename a table, or a column of it, until the block ends."""
    there, back = f"{table} RENAME TO mislaid", f"mislaid RENAME TO {table}"
    if column:
        there, back = f"{table} RENAME COLUMN {column} TO mislaid", f"{table} RENAME COLUMN mislaid TO {column}"
    _alter(alias, there)
    try:
        yield
    finally:
        _alter(alias, back)


def _alter(alias: str, change: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {change}")
