"""The raw limits: what the database does for a program that knows nothing of queues.

The raw table has the columns, the constraints and the indexes of the message table, so
that the price of durable order is the database's on both sides of a ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Connection, connect, sql

from django_mq.delivery.message_ids import new_message_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.backends.base.base import BaseDatabaseWrapper

#: Rows of one statement.
BATCH = 1000
BODY = b'{"n":12345}'
COLUMNS = (
    "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,"
    " published_at, dead_reason, content_type, content_encoding, headers, body"
)
VALUES = "1, 1, 4, 0, 4, 0, false, false, %s, '', now(), '', 'application/json', 'utf-8', '{}', %s"
INSERT = f"INSERT INTO mq_bench_raw ({COLUMNS}) VALUES ({VALUES})"
PLAIN = INSERT.replace("mq_bench_raw", "mq_bench_plain")
CLAIM = """
    UPDATE mq_bench_raw m SET state = 2 FROM (
        SELECT id FROM mq_bench_raw WHERE queue_id = 1 AND state = 1
        ORDER BY level DESC, place, id LIMIT %s FOR UPDATE SKIP LOCKED
    ) head WHERE m.id = head.id RETURNING m.id, m.message_id, m.headers, m.body
"""


class RawTable:
    """A table like the message table, and a plain psycopg connection to it."""

    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.ensure_connection()
        self._given = self._parameters(wrapper)
        self.driver = self.connection()
        self._committing: Connection[Any] = connect(**self._given)
        self.driver.execute("DROP TABLE IF EXISTS mq_bench_raw, mq_bench_plain")
        self.driver.execute("CREATE TABLE mq_bench_raw (LIKE django_mq_message INCLUDING ALL)")
        columns = "LIKE django_mq_message INCLUDING DEFAULTS INCLUDING IDENTITY"
        self.driver.execute(f"CREATE TABLE mq_bench_plain ({columns}, PRIMARY KEY (id))")

    @staticmethod
    def _parameters(wrapper: BaseDatabaseWrapper) -> dict[str, Any]:
        names = {"dbname", "user", "password", "host", "port", "service", "sslmode"}
        given = wrapper.get_connection_params()
        return {name: value for name, value in given.items() if name in names}

    def connection(self) -> Connection[Any]:
        """Return another connection."""
        return connect(**self._given, autocommit=True)

    def insert_and_commit(self, amount: int) -> None:
        """An INSERT and a COMMIT for each row, the textbook's loop."""
        self._insert_and_commit(INSERT, amount)

    def insert_into_plain(self, amount: int) -> None:
        """The same into a table that has a primary key and no other index."""
        self._insert_and_commit(PLAIN, amount)

    def _insert_and_commit(self, statement: str, amount: int) -> None:
        with self._committing.cursor() as cursor:
            for _ in range(amount):
                cursor.execute(statement, (new_message_id(), BODY))
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

    def insert_many(self, amount: int) -> None:
        """One INSERT per 1,000 rows, one commit each."""
        for batch in _batches(amount):
            places = sql.SQL(", ").join([sql.SQL(f"({VALUES})")] * len(batch))
            statement = sql.SQL(f"INSERT INTO mq_bench_raw ({COLUMNS}) VALUES ") + places
            self.driver.execute(statement, [value for _ in batch for value in (new_message_id(), BODY)])

    def copy(self, amount: int) -> None:
        """COPY in batches of 1,000, one commit each."""
        columns = "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type"
        rest = "published_at, dead_reason, content_type, content_encoding, headers, body"
        for batch in _batches(amount):
            statement = f"COPY mq_bench_raw ({columns}, {rest}) FROM STDIN"
            with self.driver.cursor() as cursor, cursor.copy(statement) as copy:
                for _ in batch:
                    copy.write_row(_row())

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""
        while rows := self.driver.execute(CLAIM, (BATCH,)).fetchall():
            self.driver.execute("DELETE FROM mq_bench_raw WHERE id = ANY(%s)", ([row[0] for row in rows],))

    def empty(self) -> None:
        """Throw everything away."""
        self.driver.execute("TRUNCATE mq_bench_raw, mq_bench_plain")

    def drop(self) -> None:
        """Leave no trace."""
        self.driver.execute("DROP TABLE mq_bench_raw, mq_bench_plain")
        self.driver.close()
        self._committing.close()


def _batches(amount: int) -> Iterable[range]:
    return (range(start, min(start + 1000, amount)) for start in range(0, amount, 1000))


def _row() -> tuple[Any, ...]:
    common = (1, 1, 4, 0, 4, 0, False, False, new_message_id(), "")
    return (*common, "2026-01-01 00:00:00+00", "", "application/json", "utf-8", "{}", BODY)
