"""The raw limits on SQLite: the driver alone, on a file beside the site's with the same table and indexes.

The file has a journal and is written through as the site's is, so that a commit costs the same.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import connections

from django_mq.benchmarks.targets import ON_SQLITE
from django_mq.delivery.codecs import new_message_id

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 1000
#: What decides how long a commit takes.
DURABILITY = ("journal_mode", "synchronous")
#: A writer waits so long for the lock, in seconds.
PATIENCE_SECONDS = 30.0
MADE_AS = (
    "SELECT sql FROM sqlite_master WHERE tbl_name = 'django_mq_message' AND sql IS NOT NULL ORDER BY type DESC"
)
COLUMNS = (
    "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,"
    " published_at, dead_reason, content_type, content_encoding, headers, body"
)
VALUES = "1, 1, 4, 0, 4, 0, 0, 0, ?, '', '2026-01-01 00:00:00', '', 'application/json', 'utf-8', '{}', ?"
INSERT = f"INSERT INTO django_mq_message ({COLUMNS}) VALUES ({VALUES})"
BODY = b'{"n":12345}'
CLAIM = """
    UPDATE django_mq_message SET state = 2 WHERE id IN (
        SELECT id FROM django_mq_message WHERE queue_id = 1 AND state = 1
        ORDER BY level DESC, place, id LIMIT ?
    ) RETURNING id, message_id, headers, body
"""
DELETE = "DELETE FROM django_mq_message WHERE id IN (SELECT value FROM json_each(?))"
EMPTY = "DELETE FROM django_mq_message"


class RawFile:
    """A database of one's own, which the first one makes."""

    targets: ClassVar = ON_SQLITE

    def __init__(self, alias: str, *, make: bool = True) -> None:
        self._site = connections[alias]
        self._site.ensure_connection()
        self._path = Path(f"{self._site.settings_dict['NAME']}.mq_bench")
        with self._site.cursor() as cursor:  # now, because a thread may not use another one's connection later
            self._pragmas = {pragma: _value_of(pragma, cursor) for pragma in DURABILITY}
        if make:
            self._remove()
        self.driver = self.connection()
        if make:
            self._copy_table()

    def connection(self) -> sqlite3.Connection:
        """Return another connection, each statement a transaction by itself."""
        driver = sqlite3.connect(self._path, PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma, value in self._pragmas.items():
            driver.execute(f"PRAGMA {pragma} = {value}")
        return driver

    @staticmethod
    def durability(cursor: Any) -> str:
        """Return what a commit waits for."""
        return ", ".join(f"{pragma} {_value_of(pragma, cursor)}" for pragma in DURABILITY)

    def _copy_table(self) -> None:
        with self._site.cursor() as cursor:
            cursor.execute(MADE_AS)
            for (statement,) in cursor.fetchall():
                self.driver.execute(statement)

    def insert_and_commit(self, amount: int) -> None:
        """An INSERT and a COMMIT for each row."""
        for _ in range(amount):
            self.driver.execute("BEGIN IMMEDIATE")
            self.driver.execute(INSERT, next(_rows(1)))
            self.driver.execute("COMMIT")

    def insert_one_by_one(self, amount: int) -> None:
        """One INSERT for each row that commits by itself."""
        for row in _rows(amount):
            self.driver.execute(INSERT, row)

    @staticmethod
    def claim_one(driver: Any) -> bool:
        """Claim the first row over a connection of one's own."""
        return bool(driver.execute(CLAIM, (1,)).fetchall())

    def copy(self, amount: int) -> None:
        """One transaction for 1,000 rows."""
        for start in range(0, amount, BATCH):
            self.driver.execute("BEGIN IMMEDIATE")
            self.driver.executemany(INSERT, _rows(min(BATCH, amount - start)))
            self.driver.execute("COMMIT")

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""
        while rows := self.driver.execute(CLAIM, (BATCH,)).fetchall():
            self.driver.execute(DELETE, (json.dumps([row[0] for row in rows]),))

    def empty(self) -> None:
        """Throw all rows away."""
        self.driver.execute(EMPTY)

    def close(self) -> None:
        """Remove the file."""
        self.driver.close()
        self._remove()

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{ending}").unlink(missing_ok=True)


def _value_of(pragma: str, cursor: Any) -> str:
    cursor.execute(f"PRAGMA {pragma}")
    return str(cursor.fetchone()[0])


def _rows(amount: int) -> Iterator[tuple[str, bytes]]:
    return ((new_message_id().hex, BODY) for _ in range(amount))
