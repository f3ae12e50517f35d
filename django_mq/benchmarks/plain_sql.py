"""The work of a queue in plain SQL, on the same connection, table and indexes, to compare figures with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections, transaction

from django_mq.delivery.codecs import new_message_id
from django_mq.models import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The maximum number of rows in a transaction.
BATCH = 1000
#: The columns without a default, and the values of a ready message.
COLUMNS = (
    "queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,"
    " published_at, dead_reason, content_type, content_encoding, headers, body"
)
ROW = (
    "({queue}, 1, 4, 0, 4, 0, false, false, %s, '',"
    " '2026-01-01 00:00:00', '', 'application/json', 'utf-8', '{{}}', {body})"
)
INSERT = f"INSERT INTO django_mq_message ({COLUMNS}) VALUES {ROW.format(queue='%s', body='%s')}"
CLAIM = """
UPDATE django_mq_message SET state = 2 WHERE id IN (
    SELECT id FROM (
        SELECT id FROM django_mq_message WHERE queue_id = %s AND state = 1
        ORDER BY level DESC, place, id LIMIT %s
    ) head
)
"""
READ = "SELECT id, message_id, headers, body FROM django_mq_message WHERE queue_id = %s AND state = 2"
DELETE = "DELETE FROM django_mq_message WHERE queue_id = %s AND state = 2"


class PlainSQL:
    """Insert, claim and delete messages of the benchmark's queue."""

    def __init__(self, alias: str, queue: str) -> None:
        self._alias, self._queue = alias, Queue.objects.using(alias).get(name=queue).pk

    def insert(self, amount: int) -> None:
        """Insert rows, each in its own transaction."""
        with connections[self._alias].cursor() as cursor:
            for row in self._rows(amount):
                cursor.execute(INSERT, row)

    def load(self, amount: int) -> None:
        """Insert rows, 1,000 in a transaction."""
        for start in range(0, amount, BATCH):
            with transaction.atomic(self._alias), connections[self._alias].cursor() as cursor:
                cursor.executemany(INSERT, self._rows(min(BATCH, amount - start)))

    def drain(self, batch: int = BATCH) -> None:
        """Claim ``batch`` rows in a transaction and delete them in another, until none is left."""
        with connections[self._alias].cursor() as cursor:
            while True:
                with transaction.atomic(self._alias):
                    cursor.execute(CLAIM, (self._queue, batch))
                    cursor.execute(READ, (self._queue,))
                    found = cursor.fetchall()
                if not found:
                    return
                cursor.execute(DELETE, (self._queue,))

    def pass_one(self) -> None:
        """Insert a row, claim it and delete it."""
        self.insert(1)
        self.drain(1)

    def _rows(self, amount: int) -> Sequence[tuple[int, str, bytes]]:
        return [(self._queue, new_message_id().hex, b'{"n":12345}') for _ in range(amount)]
