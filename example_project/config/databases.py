"""The database of rows and messages: DATABASE_URL, or a SQLite file of the example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dj_database_url

if TYPE_CHECKING:
    from pathlib import Path

#: A writer takes its lock at BEGIN and waits for it; readers are never blocked. A commit
#: does not wait for the disk: a power cut may undo the last ones, never tear one apart.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}


def database(url: str | None, file: Path) -> dict[str, Any]:
    """Return the entry of ``DATABASES``."""
    settings: dict[str, Any] = dict(dj_database_url.parse(url or f"sqlite:///{file}"))
    if settings["ENGINE"].endswith("sqlite3"):
        settings["OPTIONS"] = SQLITE_OPTIONS
    return settings
