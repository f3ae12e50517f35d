-- Creates a queue. A name that is taken is an error.
-- Locks: the new row; waits for another transaction that creates the same queue.
-- Returns: the id.
INSERT INTO django_mq_queue (
    name, kind, levels, due_order, closed, paused, paused_reason, max_attempts, backoff_seconds,
    backoff_multiplier, backoff_cap_seconds, backoff_jitter, dead_letter_queue_id, max_messages,
    ttl_seconds, history_days, history_body, created_at)
SELECT
    %(name)s, %(kind)s, %(levels)s, %(due_order)s, false, false, '', %(max_attempts)s, %(backoff_seconds)s,
    %(backoff_multiplier)s, %(backoff_cap_seconds)s, %(backoff_jitter)s,
    (SELECT id FROM django_mq_queue WHERE name = %(dead_letter_queue)s), %(max_messages)s,
    %(ttl_seconds)s, %(history_days)s, %(history_body)s, {now}
