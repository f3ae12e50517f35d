-- Deletes the results of Django's tasks that are over their time.
-- Locks: the database for writing. Index: django_mq_taskresult_pruning.
-- Returns: one row per deleted row.
DELETE FROM django_mq_taskresult
WHERE message_id IN (
    SELECT message_id FROM django_mq_taskresult
    WHERE expires_at < {now}
    ORDER BY expires_at
    LIMIT %(limit)s)
RETURNING message_id
