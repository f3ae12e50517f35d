"""Whether a database is at rest: then a process can be suspended without holding locks."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg


def is_at_rest(url: str) -> bool:
    """Whether no open transaction could lock out others."""
    if url.startswith("sqlite:"):
        return _sqlite_is_free(url.removeprefix("sqlite:///"))
    with psycopg.connect(url, autocommit=True) as connection:
        under_way = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        )
        return under_way.fetchone() is None


def _sqlite_is_free(path: str) -> bool:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True
