-- Deletes the results of Django's tasks that are over their time.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_taskresult_pruning. The array is made once, see prune_history.sql.
-- Returns: one row per deleted row.
DELETE FROM django_mq_taskresult
WHERE message_id = ANY(ARRAY(
    SELECT message_id FROM django_mq_taskresult
    WHERE expires_at < {now}
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING message_id
