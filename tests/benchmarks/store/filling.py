"""Millions of messages, made inside the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections

from django_mq.benchmarks.measures import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

READY, SCHEDULED = "1", "0"
#: Rows of one statement.
PART = 250_000
#: Message ids grow, as those of the publisher do.
FILL = """
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type, published_at,
    deliver_at, dead_reason, content_type, content_encoding, headers, group_key, body)
SELECT q.id, row.state, 0, 0, 4, 0, false, false, lpad(to_hex(%s + n), 32, '0')::uuid, '', now(),
       CASE WHEN row.state = 0 THEN now() + interval '1 day' END, '', 'application/json', 'utf-8', '{{}}',
       {group}, '{{"n":12345}}'
FROM generate_series(1, %s) n
CROSS JOIN LATERAL (SELECT {state} AS state) row
JOIN django_mq_queue q ON q.name = %s
ORDER BY n
"""

#: What a claim of these will touch: the rows, and where the two indexes have them by id.
READ = """
SELECT sum(length(head.body)), count(by_id.id), count(by_name.id)
FROM (
    SELECT * FROM django_mq_message
    WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %s) AND state = 1
    ORDER BY level DESC, place, id
    LIMIT %s
) head
CROSS JOIN LATERAL (SELECT m.id FROM django_mq_message m WHERE m.id = head.id LIMIT 1) by_id
CROSS JOIN LATERAL (
    SELECT m.id FROM django_mq_message m
    WHERE m.message_id = head.message_id AND m.queue_id = head.queue_id LIMIT 1
) by_name
"""
#: The server prefers to keep what was read so often.
PASSES = 5


class Filler:
    """Fills one queue; the numbers in its message ids go on from call to call."""

    def __init__(self, alias: str, say: Callable[[str], None]) -> None:
        self.alias = alias
        self._say = say
        self._made = 0

    def fill(self, amount: int, state: str = READY, *, group: str = "NULL") -> None:
        """Add so many messages; ``state`` and ``group`` are SQL that may name the row's number, ``n``."""
        with connections[self.alias].cursor() as cursor:
            for start in range(0, amount, PART):
                part = min(PART, amount - start)
                cursor.execute(FILL.format(state=state, group=group), (self._made, part, QUEUE))
                self._made += part
                if amount > PART:
                    self._say(f"{start + part:,} of {amount:,} messages made")

    def settle_down(self) -> None:
        """Do what autovacuum would do by and by."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE) django_mq_message")


def bring_in(alias: str, amount: int) -> None:
    """Read so many messages at the head into the server's memory, where a publisher would have left them.

    Millions that were made within seconds have pushed them out, and have left their own pages
    there, which the next query has to write.
    """
    with connections[alias].cursor() as cursor:
        for _ in range(PASSES):
            cursor.execute(READ, (QUEUE, amount))
