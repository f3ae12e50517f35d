"""One entry of ``DATABASES`` per kind of database, as a production site would write it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import dj_database_url

#: A writer takes its lock at BEGIN and waits for it; readers are not blocked by the write-ahead log.
#: A site would wait for 20 seconds. SQLite has no queue for the lock, and some writers wait long on a slow disk.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 60,
    "init_command": "PRAGMA journal_mode=WAL;",
}


def sqlite(path: str) -> dict[str, Any]:
    """Return a database in a file: the tests need several connections and processes on it."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": dict(SQLITE_OPTIONS),
        "TEST": {"NAME": f"{path}-test"},
    }


def from_url(url: str) -> dict[str, Any]:
    """Return the database that a URL names, of any kind."""
    parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    return sqlite(parsed["NAME"]) if parsed["ENGINE"].endswith("sqlite3") else parsed


def to_url(settings: dict[str, Any]) -> str:
    """Return the URL of a database as Django knows it, for the environment of another process."""
    if settings["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{settings['NAME']}"
    scheme = settings["ENGINE"].rpartition(".")[2]
    part = {key: quote(str(settings[key]), safe="") for key in ("USER", "PASSWORD", "HOST", "NAME")}
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    return f"{scheme}://{part['USER']}:{part['PASSWORD']}@{part['HOST']}{port}/{part['NAME']}"
