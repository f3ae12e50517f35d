"""The raw limits on MariaDB and MySQL: the driver alone, a table with the message table's columns and indexes.

There is no COPY: the quickest way to load rows that any user may go is one INSERT of a thousand.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import connections

from django_mq.benchmarks.targets import ON_MYSQL
from django_mq.delivery.codecs import new_message_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE = "mq_bench_raw"
#: Rows of one statement.
BATCH = 1000
#: The server's number for it.
DEADLOCK = 1213
COLUMNS = (
    "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,"
    " published_at, dead_reason, content_type, content_encoding, headers, body"
)
VALUES = (
    "(1, 1, 4, 0, 4, 0, false, false, %s, '', '2026-01-01 00:00:00', '', 'application/json', 'utf-8', '{}',"
    """ '{"n":12345}')"""
)
INSERT = f"INSERT INTO {TABLE} ({COLUMNS}) VALUES "
LOCK = f"""
    SELECT id, message_id, headers, body FROM {TABLE} WHERE queue_id = 1 AND state = 1
    ORDER BY level DESC, place, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
CLAIM = f"UPDATE {TABLE} SET state = 2 WHERE id IN %s"
DELETE = f"DELETE FROM {TABLE} WHERE id IN %s"


class RawTable:
    """Plain connections to such a table, which the first one makes."""

    targets: ClassVar = ON_MYSQL

    def __init__(self, alias: str, *, make: bool = True) -> None:
        self._site: Any = connections[alias]
        if make:
            with self._site.cursor() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
                cursor.execute(f"CREATE TABLE {TABLE} LIKE django_mq_message")
        self.driver = self._connect()

    def _connect(self) -> Any:
        """Return a connection as the site has them, each statement a transaction by itself."""
        driver = self._site.Database.connect(**self._site.get_connection_params())
        driver.autocommit(True)
        driver.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return driver

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Give another connection."""
        driver = self._connect()
        try:
            yield driver
        finally:
            driver.close()

    @staticmethod
    def durability(cursor: Any) -> str:
        """Return what a commit waits for."""
        cursor.execute("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog")
        return "innodb_flush_log_at_trx_commit {}, sync_binlog {}".format(*cursor.fetchone())

    def insert_and_commit(self, amount: int) -> None:
        """BEGIN, an INSERT and a COMMIT for each row."""
        with self.driver.cursor() as cursor:
            for _ in range(amount):
                self.driver.begin()
                cursor.execute(INSERT + VALUES, _ids(1))
                self.driver.commit()

    def insert_one_by_one(self, amount: int) -> None:
        """One INSERT for each row that commits by itself."""
        with self.driver.cursor() as cursor:
            for _ in range(amount):
                cursor.execute(INSERT + VALUES, _ids(1))

    @staticmethod
    def claim_one(driver: Any) -> bool:
        """Claim the first row over a connection of one's own."""
        driver.begin()
        with driver.cursor() as cursor:
            found = _claim(cursor, 1)
        driver.commit()
        return bool(found)

    def copy(self, amount: int) -> None:
        """One INSERT for 1,000 rows, one commit each."""
        with self.driver.cursor() as cursor:
            for start in range(0, amount, BATCH):
                size = min(BATCH, amount - start)
                cursor.execute(INSERT + ", ".join([VALUES] * size), _ids(size))

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""
        with self.driver.cursor() as cursor:
            while ids := self._again(partial(self._claimed, cursor)):
                self._again(partial(cursor.execute, DELETE, (ids,)))

    def _claimed(self, cursor: Any) -> list[int]:
        self.driver.begin()
        ids = _claim(cursor, BATCH)
        self.driver.commit()
        return ids

    def _again(self, work: Callable[[], Any]) -> Any:
        """Do it until no dead-lock ends it: two loops side by side meet in the indexes."""
        while True:
            try:
                return work()
            except self._site.Database.OperationalError as error:
                if error.args[0] != DEADLOCK:
                    raise
                self.driver.rollback()

    def empty(self) -> None:
        """Throw all rows away."""
        self.driver.query(f"TRUNCATE TABLE {TABLE}")

    def close(self) -> None:
        """Remove the table."""
        self.driver.query(f"DROP TABLE IF EXISTS {TABLE}")
        self.driver.close()


def _claim(cursor: Any, limit: int) -> list[int]:
    """Lock and mark the first rows, within a transaction; return their ids."""
    cursor.execute(LOCK, (limit,))
    ids = [row[0] for row in cursor.fetchall()]
    if ids:
        cursor.execute(CLAIM, (ids,))
    return ids


def _ids(amount: int) -> list[str]:
    return [new_message_id().hex for _ in range(amount)]
