-- Makes publishers into a queue with rules wait for each other, so that they cannot overshoot.
-- Locks: the queue's row until the transaction ends; nothing of a queue without rules.
-- Index: its unique name.
-- Returns: id, limits, overflow, key of last values, what it holds at most, and whether that figure is fresh.
SELECT
    id, max_messages, max_bytes, overflow, last_value_key, held_messages, held_bytes,
    coalesce(counted_at > {now} - interval '1 minute', false)
FROM django_mq_queue
WHERE name = %(queue)s AND (max_messages IS NOT NULL OR max_bytes IS NOT NULL OR last_value_key <> '')
FOR UPDATE
