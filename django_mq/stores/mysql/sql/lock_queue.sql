-- Makes publishers into a queue with rules wait for each other, so that they cannot overshoot.
-- Locks: the queue's row until the transaction ends; nothing of a queue without rules. The row alone: its
-- entry in the index of names is what publishers share, see append.sql.
-- Index: its unique name, then the primary key.
-- Returns: id, limits, overflow, key of last values, what it holds at most, and whether that figure is fresh.
SELECT
    id, max_messages, max_bytes, overflow, last_value_key, held_messages, held_bytes,
    coalesce(counted_at > {now} - INTERVAL 1 MINUTE, false)
FROM django_mq_queue
WHERE id = (
    SELECT q.id FROM django_mq_queue q
    WHERE q.name = %(queue)s AND (q.max_messages IS NOT NULL OR q.max_bytes IS NOT NULL OR q.last_value_key <> ''))
FOR UPDATE
