-- Creates a queue unless its name is taken.
-- Locks: the new row; waits for another transaction that creates the same queue.
-- Returns: the id if it was created.
INSERT INTO django_mq_queue (
    name, kind, levels, due_order, closed, paused, paused_reason, max_attempts, backoff_seconds,
    backoff_multiplier, backoff_cap_seconds, backoff_jitter, dead_letter_queue_id, max_messages,
    max_bytes, overflow, wait_seconds, last_value_key, dedup_count, dedup_seconds, ttl_seconds, min_ttl_seconds,
    max_ttl_seconds, expiry_queue_id, dropped, history_days, history_body, created_at, group_rule, strict, max_in_flight,
    max_consumers, exclusive)
VALUES (
    %(name)s, %(kind)s, %(levels)s, %(due_order)s, false, false, '', %(max_attempts)s, %(backoff_seconds)s,
    %(backoff_multiplier)s, %(backoff_cap_seconds)s, %(backoff_jitter)s,
    (SELECT id FROM django_mq_queue WHERE name = %(dead_letter_queue)s), %(max_messages)s,
    %(max_bytes)s, %(overflow)s, %(wait_seconds)s, %(last_value_key)s, %(dedup_count)s, %(dedup_seconds)s,
    %(ttl_seconds)s, %(min_ttl_seconds)s, %(max_ttl_seconds)s,
    (SELECT id FROM django_mq_queue WHERE name = %(expiry_queue)s), 0, %(history_days)s, %(history_body)s, {now}, %(grouping)s,
    %(strict)s, %(max_in_flight)s, %(max_consumers)s, %(exclusive)s)
ON CONFLICT (name) DO NOTHING
RETURNING id
