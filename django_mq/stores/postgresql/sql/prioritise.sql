-- Gives ready or scheduled messages another priority: each becomes a new arrival, so that it
-- stands at the tail of its new level. Their old order decides who arrives first.
-- A new row takes its number from the table, which needs no privilege on the sequence.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key.
-- Returns: one row per message.
WITH chosen AS MATERIALIZED (
    SELECT * FROM django_mq_message
    WHERE id = ANY(%(ids)s::bigint[]) AND state < 2 AND priority <> %(priority)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM django_mq_message WHERE id IN (SELECT id FROM chosen) RETURNING id
)
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, value_key, published_at, deliver_at, expires_at, dead_reason, content_type,
    content_encoding, headers, properties, body)
SELECT
    q.id, m.state, {level}, CASE WHEN m.state = 0 THEN m.place ELSE 0 END, n.priority, m.attempts,
    m.redelivered, m.suspect, m.message_id, m.type, m.correlation_id, m.group_key, m.value_key, m.published_at,
    m.deliver_at, m.expires_at, m.dead_reason, m.content_type, m.content_encoding, m.headers, m.properties, m.body
FROM chosen m
JOIN gone ON gone.id = m.id
JOIN django_mq_queue q ON q.id = m.queue_id
CROSS JOIN (SELECT %(priority)s::int AS priority) n
ORDER BY m.level DESC, m.place, m.id
RETURNING id
