"""What a database does for plain SQL: the limits that our figures stand beside.

The table of its own has the columns, constraints and indexes of the message table, so the price of
durable order is the database's on both sides of a ratio.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from django.db import connections

from django_mq.benchmarks.plain_sql import BATCH, COLUMNS, ROW
from django_mq.delivery.codecs import new_message_id

TABLE = "mq_bench_raw"
VALUES = ROW.format(queue=1, body="""'{"n":12345}'""")
HEAD = f"SELECT id FROM {TABLE} WHERE queue_id = 1 AND state = 1 ORDER BY level DESC, place, id LIMIT %s"


class RawTable:
    """Connections of the driver to such a table, which the first one makes, on PostgreSQL."""

    insert = f"INSERT INTO {TABLE} ({COLUMNS}) VALUES {VALUES}"
    claim = (
        f"UPDATE {TABLE} m SET state = 2 FROM ({HEAD} FOR UPDATE SKIP LOCKED) head"
        " WHERE m.id = head.id RETURNING m.id, m.message_id, m.headers, m.body"
    )
    delete = f"DELETE FROM {TABLE} WHERE id = ANY(%s)"
    empties = f"TRUNCATE TABLE {TABLE}"
    begin = "BEGIN"
    #: What a commit waits for, which decides most of the figures.
    durability = (
        "SELECT 'fsync ' || current_setting('fsync')"
        " || ', synchronous_commit ' || current_setting('synchronous_commit')"
    )
    #: What of Django's connection parameters says where the server is, and how to find the tables.
    where: ClassVar = {"dbname", "user", "password", "host", "port", "service", "sslmode", "options"}

    def __init__(self, alias: str, *, make: bool = True) -> None:
        self.site: Any = connections[alias]
        self.site.ensure_connection()
        if make:
            self.make()
        self.driver = self.connection()

    def make(self) -> None:
        """Make the table anew."""
        with self.site.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
            copy_table(cursor, "django_mq_message", TABLE)

    def connection(self) -> Any:
        """Return another connection, on which each statement is a transaction by itself."""
        given = self.site.get_connection_params()
        where = {name: value for name, value in given.items() if name in self.where}
        return self.site.Database.connect(**where, autocommit=True)

    def insert_one(self) -> None:
        """One INSERT that commits by itself."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self.insert, _ids(1))

    def insert_and_commit(self, amount: int) -> None:
        """An INSERT and a COMMIT for each row, the textbook's loop."""
        self.driver.autocommit = False
        with closing(self.driver.cursor()) as cursor:
            for _ in range(amount):
                cursor.execute(self.insert, _ids(1))
                self.driver.commit()
        self.driver.autocommit = True

    def load(self, amount: int) -> None:
        """The quickest way to load rows, in batches of 1,000, one commit each: COPY."""
        rest = ("2026-01-01 00:00:00+00", "", "application/json", "utf-8", "{}", b'{"n":12345}')
        with self.driver.cursor() as cursor:
            for size in _batches(amount):
                with cursor.copy(f"COPY {TABLE} ({COLUMNS}) FROM STDIN") as copy:
                    for _ in range(size):
                        copy.write_row((1, 1, 4, 0, 4, 0, False, False, new_message_id(), "", *rest))

    def claimed(self, cursor: Any, limit: int) -> list[int]:
        """Claim the first rows, in one transaction; return their ids."""
        cursor.execute(self.claim, (limit,))
        return [row[0] for row in cursor.fetchall()]

    def claim_one(self, driver: Any) -> bool:
        """Claim the first row over a connection of one's own."""
        with closing(driver.cursor()) as cursor:
            return bool(self.claimed(cursor, 1))

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""
        with closing(self.driver.cursor()) as cursor:
            while ids := self.claimed(cursor, BATCH):
                cursor.execute(self.delete, (self.listed(ids),))

    @staticmethod
    def listed(ids: list[int]) -> Any:
        """Return the ids as the driver takes them."""
        return ids

    def empty(self) -> None:
        """Throw all rows away."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self.empties)

    def close(self) -> None:
        """Remove the table."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        self.driver.close()


class RawWithBegin(RawTable):
    """Such a table where a transaction is begun by a statement."""

    def insert_and_commit(self, amount: int) -> None:
        """BEGIN, an INSERT and a COMMIT for each row."""
        with closing(self.driver.cursor()) as cursor:
            for _ in range(amount):
                cursor.execute(self.begin)
                cursor.execute(self.insert, _ids(1))
                cursor.execute("COMMIT")


class RawMySQL(RawWithBegin):
    """The same on MariaDB and MySQL, where one INSERT of 1,000 rows stands for COPY."""

    lock = f"{HEAD} FOR UPDATE SKIP LOCKED".replace("SELECT id", "SELECT id, message_id, headers, body")
    claim = f"UPDATE {TABLE} SET state = 2 WHERE id IN %s"
    delete = f"DELETE FROM {TABLE} WHERE id IN %s"
    durability = (
        "SELECT concat('innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit,"
        " ', sync_binlog ', @@sync_binlog)"
    )
    deadlock = 1213

    def make(self) -> None:
        with self.site.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
            cursor.execute(f"CREATE TABLE {TABLE} LIKE django_mq_message")

    def connection(self) -> Any:
        driver = self.site.Database.connect(**self.site.get_connection_params())
        driver.autocommit(True)
        driver.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return driver

    def load(self, amount: int) -> None:
        with self.driver.cursor() as cursor:
            for size in _batches(amount):
                cursor.execute(self.insert + f", {VALUES}" * (size - 1), _ids(size))

    def claimed(self, cursor: Any, limit: int) -> list[int]:
        cursor.execute(self.begin)
        cursor.execute(self.lock, (limit,))
        if ids := [row[0] for row in cursor.fetchall()]:
            cursor.execute(self.claim, (ids,))
        cursor.execute("COMMIT")
        return ids

    def drain(self) -> None:
        while True:
            try:
                return super().drain()
            except self.site.Database.OperationalError as error:
                if error.args[0] != self.deadlock:  # two loops side by side meet in the indexes
                    raise
                self.driver.rollback()


class RawSQLite(RawWithBegin):
    """The same in a file beside the site's, which has a journal and is written through as the site's is."""

    insert = RawTable.insert.replace("%s", "?")
    claim = f"UPDATE {TABLE} SET state = 2 WHERE id IN ({HEAD}) RETURNING id, message_id, headers, body".replace(
        "%s", "?"
    )
    delete = f"DELETE FROM {TABLE} WHERE id IN (SELECT value FROM json_each(?))"
    empties = f"DELETE FROM {TABLE}"
    begin = "BEGIN IMMEDIATE"
    durability = (
        "SELECT 'journal_mode ' || journal_mode || ', synchronous ' || synchronous"
        " FROM pragma_journal_mode, pragma_synchronous"
    )

    def __init__(self, alias: str, *, make: bool = True) -> None:
        self.path = Path(f"{connections[alias].settings_dict['NAME']}.mq_bench")
        # Now, because a thread may not use the site's connection later.
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous")
            self.pragmas = "PRAGMA journal_mode = {}; PRAGMA synchronous = {}".format(*cursor.fetchone())
        super().__init__(alias, make=make)

    def make(self) -> None:
        self.remove()
        with closing(self.connection()) as driver, self.site.cursor() as cursor:
            cursor.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'django_mq_message' ORDER BY type DESC")
            for (statement,) in cursor.fetchall():
                driver.execute((statement or "").replace("django_mq_message", TABLE))

    def connection(self) -> Any:
        driver = self.site.Database.connect(self.path, 30.0, isolation_level=None, check_same_thread=False)
        driver.executescript(self.pragmas)
        return driver

    def load(self, amount: int) -> None:
        for size in _batches(amount):
            self.driver.execute(self.begin)
            self.driver.executemany(self.insert, ((one,) for one in _ids(size)))
            self.driver.execute("COMMIT")

    @staticmethod
    def listed(ids: list[int]) -> Any:
        return json.dumps(ids)

    def close(self) -> None:
        self.driver.close()
        self.remove()

    def remove(self) -> None:
        """Remove the file and what SQLite keeps beside it."""
        for ending in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)


def raw_table(alias: str, *, make: bool = True) -> RawTable:
    """Return the raw limits of this kind of database; without ``make``, over what another process has made."""
    return KINDS[connections[alias].vendor](alias, make=make)


#: By the vendor of a connection.
KINDS = {"postgresql": RawTable, "mysql": RawMySQL, "sqlite": RawSQLite}


def copy_table(cursor: Any, table: str, target: str) -> None:
    """Make an empty table on PostgreSQL with everything that the other one has."""
    cursor.execute(f"CREATE TABLE {target} (LIKE {table} INCLUDING ALL)")
    cursor.execute("SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = %s::regclass", (table,))
    if options := cursor.fetchone()[0]:
        cursor.execute(f"ALTER TABLE {target} SET ({options})")


def _batches(amount: int) -> list[int]:
    return [min(BATCH, amount - start) for start in range(0, amount, BATCH)]


def _ids(amount: int) -> list[str]:
    return [new_message_id().hex for _ in range(amount)]
