"""Tables that are not cleaned up: why, and the statement that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.stores.space import Space

#: Dead rows, and their share of all rows, from which a table is not cleaned up as it should be.
MOST_DEAD_ROWS, DEAD_SHARE = 100_000, 0.2
#: A table with so many dead rows is vacuumed within minutes, unless something holds it back.
LATE_SECONDS = 3600.0
#: A transaction this old holds cleaning up back.
LONG_SECONDS = 600.0
#: What migration 0005 gives the table that changes most.
SETTINGS = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000"


class Transaction(NamedTuple):
    """One that is open: its process, its age, and what the process calls itself."""

    pid: int
    seconds: float
    name: str


def untended(spaces: Sequence[Space], longest: Transaction | None) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for tables that grow without need."""
    for space in spaces:
        dead, rows = space.dead_rows or 0, space.rows or 0
        if dead > MOST_DEAD_ROWS and dead > DEAD_SHARE * (dead + rows):
            yield from _uncleaned(space, longest)
        if space.is_mostly_loose:
            yield (
                f"The indexes of {space.table} take some {space.loose // 2**20:,} MiB more than new ones would.",
                f"REINDEX TABLE CONCURRENTLY {space.table};",
            )


def _uncleaned(space: Space, longest: Transaction | None) -> Iterator[tuple[str, str]]:
    table, dead = space.table, f"{space.dead_rows:,} dead rows of {space.table} are not cleaned up"
    if "autovacuum_enabled=false" in space.settings or "autovacuum_enabled=off" in space.settings:
        yield f"{dead}: its autovacuum is off.", f"ALTER TABLE {table} RESET (autovacuum_enabled);"
    elif longest is not None and longest.seconds > LONG_SECONDS:
        who = f"process {longest.pid} ({longest.name or 'without a name'})"
        minutes = f"{longest.seconds / 60:,.0f} minutes"
        yield (
            f"{dead}: the transaction of {who} is {minutes} old and may still see them.",
            f"Let it end, or call pg_terminate_backend({longest.pid}).",
        )
    elif space.tended_seconds is not None and space.tended_seconds > LATE_SECONDS:
        given = (
            "" if "autovacuum_vacuum_scale_factor" in space.settings else f"ALTER TABLE {table} SET ({SETTINGS}); "
        )
        yield (
            f"{dead}, and the last vacuum was {space.tended_seconds / 3600:,.0f} hours ago.",
            f"{given}VACUUM (ANALYZE) {table}; see docs/how-to/big-tables.md.",
        )
