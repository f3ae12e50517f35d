-- Asks whether there is an older session than this one that lives, and is renewed by its own worker.
-- Locks: nothing. Index: the primary key.
-- Returns: one row if so.
SELECT 1 FROM django_mq_workersession
WHERE id < %(session)s AND deadline >= {now}
  AND heartbeat_at >= %(silent_seconds_from_now)s
LIMIT 1
