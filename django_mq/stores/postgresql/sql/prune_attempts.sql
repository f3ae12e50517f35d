-- Deletes failed attempts older than 30 days whose message is no longer here.
-- Locks: the rows it deletes, skipping locked ones.
-- Index: django_mq_attempt_pruning, django_mq_message_once. The array is made once, see prune_history.sql.
-- Returns: one row per deleted row.
DELETE FROM django_mq_attempt
WHERE id = ANY(ARRAY(
    SELECT a.id FROM django_mq_attempt a
    WHERE a.failed_at < {now} - interval '30 days'
      AND NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.message_id = a.message_id)
    ORDER BY a.failed_at
    LIMIT %(limit)s
    FOR UPDATE OF a SKIP LOCKED))
RETURNING id
