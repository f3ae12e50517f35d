"""The raw limits on PostgreSQL: plain psycopg, a table with the message table's columns, constraints and indexes.

So the price of durable order is the database's on both sides of a ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.db import connections
from psycopg import Connection, connect

from django_mq.benchmarks.schema import copy_table
from django_mq.benchmarks.targets import ON_POSTGRESQL
from django_mq.delivery.codecs import new_message_id

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = "mq_bench_raw"
#: Rows of one statement.
BATCH = 1000
BODY = b'{"n":12345}'
COLUMNS = (
    "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,"
    " published_at, dead_reason, content_type, content_encoding, headers, body"
)
VALUES = "1, 1, 4, 0, 4, 0, false, false, %s, '', now(), '', 'application/json', 'utf-8', '{}', %s"
INSERT = f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ({VALUES})"
CLAIM = f"""
    UPDATE {TABLE} m SET state = 2 FROM (
        SELECT id FROM {TABLE} WHERE queue_id = 1 AND state = 1
        ORDER BY level DESC, place, id LIMIT %s FOR UPDATE SKIP LOCKED
    ) head WHERE m.id = head.id RETURNING m.id, m.message_id, m.headers, m.body
"""
DELETE = f"DELETE FROM {TABLE} WHERE id = ANY(%s)"
#: What of Django's connection parameters says where the server is, and how to find the tables.
WHERE = frozenset({"dbname", "user", "password", "host", "port", "service", "sslmode", "options"})


class RawTable:
    """Plain connections to such a table, which the first one makes."""

    targets: ClassVar = ON_POSTGRESQL

    def __init__(self, alias: str, *, make: bool = True) -> None:
        wrapper = connections[alias]
        given = wrapper.get_connection_params()
        self._given = {name: value for name, value in given.items() if name in WHERE}
        self.driver = self.connection()
        self._committing: Connection[Any] = connect(**self._given)
        if make:
            with wrapper.cursor() as cursor:
                copy_table(cursor, "django_mq_message", (TABLE,))

    def connection(self) -> Connection[Any]:
        """Return another connection."""
        return connect(**self._given, autocommit=True)

    @staticmethod
    def durability(cursor: Any) -> str:
        """Return what a commit waits for."""
        cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
        return "fsync {}, synchronous_commit {}".format(*cursor.fetchone())

    def insert_and_commit(self, amount: int) -> None:
        """An INSERT and a COMMIT for each row, the textbook's loop."""
        with self._committing.cursor() as cursor:
            for _ in range(amount):
                cursor.execute(INSERT, (new_message_id(), BODY))
                self._committing.commit()

    @staticmethod
    def claim_one(driver: Connection[Any]) -> bool:
        """Claim the first row over a connection of one's own."""
        return bool(driver.execute(CLAIM, (1,)).fetchall())

    def insert_one_by_one(self, amount: int) -> None:
        """One INSERT for each row that commits by itself; psycopg prepares it after a while."""
        with self.driver.cursor() as cursor:
            for _ in range(amount):
                cursor.execute(INSERT, (new_message_id(), BODY))

    def copy(self, amount: int) -> None:
        """COPY in batches of 1,000, one commit each."""
        for start in range(0, amount, BATCH):
            statement = f"COPY {TABLE} ({COLUMNS}) FROM STDIN"
            with self.driver.cursor() as cursor, cursor.copy(statement) as copy:
                for row in _rows(min(BATCH, amount - start)):
                    copy.write_row(row)

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""
        while rows := self.driver.execute(CLAIM, (BATCH,)).fetchall():
            self.driver.execute(DELETE, ([row[0] for row in rows],))

    def empty(self) -> None:
        """Throw all rows away."""
        self.driver.execute(f"TRUNCATE {TABLE}")

    def close(self) -> None:
        """Close the connections; the table goes with its schema."""
        self.driver.close()
        self._committing.close()


def _rows(amount: int) -> Iterable[tuple[Any, ...]]:
    rest = ("2026-01-01 00:00:00+00", "", "application/json", "utf-8", "{}", BODY)
    for _ in range(amount):
        yield 1, 1, 4, 0, 4, 0, False, False, new_message_id(), "", *rest
