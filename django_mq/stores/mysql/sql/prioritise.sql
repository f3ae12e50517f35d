-- Copies messages that stand aside, with another priority, to the tail of their new level: each
-- becomes a new arrival. Their old order decides who arrives first.
-- Locks: the new rows. Index: the primary key.
-- Returns: one row per message.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, value_key, published_at, deliver_at, expires_at, dead_reason, content_type,
    content_encoding, headers, properties, body)
SELECT
    q.id, m.state, {level}, CASE WHEN m.state = 0 THEN m.place ELSE 0 END, n.priority, m.attempts,
    m.redelivered, m.suspect, m.message_id, m.type, m.correlation_id, m.group_key, m.value_key, m.published_at,
    m.deliver_at, m.expires_at, m.dead_reason, m.content_type, m.content_encoding, m.headers, m.properties, m.body
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = -m.queue_id
CROSS JOIN (SELECT %(priority)s AS priority) n
WHERE m.id IN %(ids)s
ORDER BY m.level DESC, m.place, m.id
