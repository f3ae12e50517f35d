"""What a SQLite connection needs: patience for the write lock, and a log that readers do not block.

Write-ahead logging is a lasting property of the user's file, with files beside it that a backup
must know of. It is therefore recommended by a check and never switched on behind his back.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The first version with RETURNING and MATERIALIZED.
OLDEST = (3, 35, 0)
#: How long a worker waits for the write lock when the settings do not say. Less than a session's
#: deadline, so that a worker that was kept waiting can still renew it.
PATIENCE_SECONDS = 10.0


def with_patience(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a private connection: the site's own, and how long to wait for a lock."""
    return {**settings, "OPTIONS": {"timeout": PATIENCE_SECONDS, **settings["OPTIONS"]}}


def problems(settings: Mapping[str, Any], journal_mode: str) -> list[tuple[str, str]]:
    """Return (problem, hint) for what makes the queue slow or fragile."""
    found = []
    if sqlite3.sqlite_version_info < OLDEST:
        found.append((f"SQLite {sqlite3.sqlite_version} is too old.", "Use SQLite 3.35 or later."))
    if journal_mode not in {"wal", "memory"}:
        hint = "Add 'init_command': 'PRAGMA journal_mode=WAL;' to the OPTIONS of the database."
        found.append(("SQLite runs without write-ahead logging: readers and the writer block each other.", hint))
    if str(settings["OPTIONS"].get("transaction_mode")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        hint = "Add 'transaction_mode': 'IMMEDIATE' to the OPTIONS of the database."
        found.append(("A transaction that reads before it publishes may fail with 'database is locked'.", hint))
    return found
