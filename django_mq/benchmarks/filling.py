"""Millions of messages, made inside the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections

from django_mq.benchmarks.measuring import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

READY, SCHEDULED = "1", "0"
#: Rows of one statement.
PART = 250_000
#: Message ids grow, as those of the publisher do.
FILL = """
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type, published_at,
    deliver_at, dead_reason, content_type, content_encoding, headers, body)
SELECT q.id, row.state, 0, 0, 4, 0, false, false, lpad(to_hex(%s + n), 32, '0')::uuid, '', now(),
       CASE WHEN row.state = 0 THEN now() + interval '1 day' END, '', 'application/json', 'utf-8', '{{}}',
       '{{"n":12345}}'
FROM generate_series(1, %s) n
CROSS JOIN LATERAL (SELECT {state} AS state) row
JOIN django_mq_queue q ON q.name = %s
ORDER BY n
"""


class Filler:
    """Fills one queue; the numbers in its message ids go on from call to call."""

    def __init__(self, alias: str, say: Callable[[str], None]) -> None:
        self.alias = alias
        self._say = say
        self._made = 0

    def fill(self, amount: int, state: str = READY) -> None:
        """Add so many messages; ``state`` is SQL that may name the row's number, ``n``."""
        with connections[self.alias].cursor() as cursor:
            for start in range(0, amount, PART):
                part = min(PART, amount - start)
                cursor.execute(FILL.format(state=state), (self._made, part, QUEUE))
                self._made += part
                if amount > PART:
                    self._say(f"{start + part:,} of {amount:,} messages made")

    def settle_down(self) -> None:
        """Do what autovacuum would do by and by."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE) django_mq_message")
