-- Deletes minutes older than two days.
-- Locks: the rows it deletes. Index: django_mq_rollup_once.
-- Returns: one row per deleted row.
DELETE FROM django_mq_rollup
WHERE minute < {now} - INTERVAL 2 DAY
ORDER BY minute
LIMIT %(limit)s
