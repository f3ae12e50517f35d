"""What the database takes of the disk: its file, and the journal beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.stores.space import Space

#: Stand where other databases have a table: SQLite has one file for all.
FILE, JOURNAL = "database file", "write-ahead log"
#: Checkpoints keep the log at a few mebibytes, unless a reader holds them up.
MOST_JOURNAL = 256 * 1024 * 1024


def journal_size(settings: Mapping[str, Any]) -> int:
    """Return the bytes of the write-ahead log; 0 where there is none."""
    try:
        return Path(f"{settings['NAME']}-wal").stat().st_size
    except OSError:
        return 0


def untended(spaces: Sequence[Space]) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for what grows without need."""
    for space in spaces:
        if space.table == JOURNAL and space.size > MOST_JOURNAL:
            yield (
                f"The write-ahead log has {space.size // 2**20:,} MiB: a long reader keeps it from being emptied.",
                "End that reader, then PRAGMA wal_checkpoint(TRUNCATE);",
            )
        if space.is_mostly_loose:
            yield (
                f"{space.loose // 2**20:,} MiB of the database file hold nothing.",
                "VACUUM; with the workers stopped: nobody else writes meanwhile, and it takes as much room again.",
            )
