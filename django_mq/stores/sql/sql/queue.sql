-- Reads one queue.
-- Locks: nothing. Index: its unique name.
-- Returns: the columns of QueueRecord.
SELECT
    q.id, q.name, q.kind, q.levels, q.due_order, q.closed,
    {paused}, q.max_attempts, q.backoff_seconds,
    q.backoff_multiplier, q.backoff_cap_seconds, q.backoff_jitter, d.name, q.max_messages, q.max_bytes,
    q.overflow, q.wait_seconds, q.last_value_key, e.name, q.ttl_seconds,
    q.group_rule, q.strict, q.max_in_flight, q.max_consumers, q.exclusive,
    (SELECT coalesce(min(c.priority) <> max(c.priority), false) FROM django_mq_consumer c WHERE c.queue_name = q.name)
FROM django_mq_queue q
LEFT JOIN django_mq_queue d ON d.id = q.dead_letter_queue_id
LEFT JOIN django_mq_queue e ON e.id = q.expiry_queue_id
WHERE q.name = %(queue)s
