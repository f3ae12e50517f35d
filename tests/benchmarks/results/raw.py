"""Request and reply in plain psycopg: the commits and notifications that a result needs, and nothing else.

    client    INSERT, NOTIFY, COMMIT        waits, SELECT
    worker    waits, claims by UPDATE, INSERT of the result, NOTIFY, COMMIT

``python -m tests.benchmarks.results.raw`` is the worker.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import django
import psycopg

from tests.benchmarks.celery.sides import running, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = "mq_bench_raw_result"
REQUESTED, REPLIED = "mq_bench_requested", "mq_bench_replied"
STORE = (
    f"INSERT INTO {RESULTS} (task_id, status, result, content_type, content_encoding, children, group_id,"
    " parent_id, name, args, kwargs, worker, queue, stamps, message_id, done_at, expires_at)"
    " VALUES (%s, 'SUCCESS', '1', 'application/json', 'utf-8', '', '', '', '', '', '', '', '', '', %s, now(),"
    " now() + interval '1 day')"
)
READ = f"SELECT * FROM {RESULTS} WHERE task_id = %s"


class RawRequests:
    """The client, and the tables, which are like those of messages and of results."""

    def __init__(self) -> None:
        from tests.benchmarks.store.raw import copy_table, raw_table

        self._table: Any = raw_table("default")
        with self._table.site.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {RESULTS}")
            copy_table(cursor, "django_mq_result", RESULTS)
        self._connection = self._table.driver
        self._connection.execute(f"LISTEN {REPLIED}")
        self._connection.autocommit = False

    def get(self, _: int = 0) -> None:
        """Request, wait for the reply, and read it. Raises AssertionError."""
        from django_mq.delivery.codecs import new_message_id

        id_ = new_message_id().hex
        self._connection.execute(self._table.insert, (id_,))
        self._connection.execute(f"NOTIFY {REQUESTED}")
        self._connection.commit()
        assert list(self._connection.notifies(timeout=60, stop_after=1))
        assert self._connection.execute(READ, (id_,)).fetchone()
        self._connection.commit()

    def empty(self) -> None:
        """Throw all rows away."""
        self._connection.execute(f"TRUNCATE {RESULTS}")
        self._connection.execute(self._table.empties)
        self._connection.commit()

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Run the worker, in a process of its own."""
        with running([sys.executable, "-m", "tests.benchmarks.results.raw"], {}):
            heard = "SELECT 1 FROM pg_stat_activity WHERE query = %s AND datname = current_database()"
            with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as watching:
                wait_until(lambda: watching.execute(heard, (f"LISTEN {REQUESTED}",)).fetchone())
            yield

    def close(self) -> None:
        """Remove the tables."""
        self._connection.execute(f"DROP TABLE {RESULTS}")
        self._connection.commit()
        self._connection.autocommit = True
        self._table.close()


def work() -> None:
    """Reply until the process is ended."""
    from tests.benchmarks.store.raw import raw_table

    table: Any = raw_table("default", make=False)
    connection = table.driver
    connection.execute(f"LISTEN {REQUESTED}")
    connection.autocommit = False
    while True:
        list(connection.notifies(stop_after=1))
        claimed = connection.execute(table.claim, (1,)).fetchall()
        connection.commit()
        for _, message_id, _, _ in claimed:
            connection.execute(STORE, (message_id.hex, message_id))
            connection.execute(f"NOTIFY {REPLIED}")
            connection.commit()


if __name__ == "__main__":
    django.setup()
    work()
