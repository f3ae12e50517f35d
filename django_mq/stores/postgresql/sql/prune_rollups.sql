-- Deletes minutes older than two days.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_rollup_once. The array is made once, see prune_history.sql.
-- Returns: one row per deleted row.
DELETE FROM django_mq_rollup
WHERE id = ANY(ARRAY(
    SELECT id FROM django_mq_rollup
    WHERE minute < {now} - interval '2 days'
    ORDER BY minute
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id
