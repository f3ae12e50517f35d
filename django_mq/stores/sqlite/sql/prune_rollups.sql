-- Deletes minutes older than two days.
-- Locks: the database for writing. Index: django_mq_rollup_once.
-- Returns: one row per deleted row.
DELETE FROM django_mq_rollup
WHERE id IN (
    SELECT id FROM django_mq_rollup
    WHERE minute < datetime({now}, '-2 days')
    ORDER BY minute
    LIMIT %(limit)s)
RETURNING id
