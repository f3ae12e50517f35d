-- Asks whether there is an older session than this one that lives.
-- Locks: nothing. Index: the primary key.
-- Returns: one row if so.
SELECT 1 FROM django_mq_workersession
WHERE id < %(session)s AND deadline >= {now}
LIMIT 1
