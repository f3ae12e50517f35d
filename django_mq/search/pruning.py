"""Delete the search keys of messages that are neither live nor in the history.

Each round reads a part of the table, by the clock, so that all of it is read once a day. From its beginning, the
keys of old dead letters would be read again and again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: Seconds between two rounds, and the rounds of a day.
INTERVAL_SECONDS = 300
ROUNDS = 24 * 3600 // INTERVAL_SECONDS
#: The fewest keys that a round reads.
FEWEST = 10_000

# Locks: nothing. Index: the ends of the primary key. Returns: the first and the last id, null if there is none.
ENDS = "SELECT min(id), max(id) FROM django_mq_searchkey"
# Finds keys of a part of the table whose messages are gone. Locks: nothing. Index: the primary key,
# django_mq_message_once and django_mq_history_message. Returns: ids.
GONE = """
SELECT k.id FROM django_mq_searchkey k
WHERE k.id >= %s AND k.id < %s
  AND NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.message_id = k.message_id)
  AND NOT EXISTS (SELECT 1 FROM django_mq_history h WHERE h.message_id = k.message_id)
ORDER BY k.id LIMIT %s
"""
# Locks: the row that it deletes. Index: the primary key. Returns: nothing.
DELETE = "DELETE FROM django_mq_searchkey WHERE id = %s"


def prune(store: Store, limit: int) -> int:
    """Delete keys whose messages are gone, at most ``limit``; return how many."""
    connection: Any = getattr(store.database, "connection", None)
    if connection is None:
        return 0  # a queue in memory has no keys
    with connection.cursor() as cursor:
        cursor.execute(ENDS)
        first, last = cursor.fetchone()
        if first is None:
            return 0
        number = last - first + 1
        size = max(FEWEST, -(-number // ROUNDS))
        begin = first + int(time.time() // INTERVAL_SECONDS) * size % (-(-number // size) * size)
        cursor.execute(GONE, [begin, begin + size, limit])
        gone = cursor.fetchall()
        if gone:
            cursor.executemany(DELETE, gone)
    return len(gone)
