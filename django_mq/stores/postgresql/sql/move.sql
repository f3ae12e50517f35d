-- Moves unheld messages to the tail of another queue; attempts restart. A message that is there
-- already stays where it is, and of several copies of one message only the first moves.
-- Locks: the rows it moves, skipping locked ones; the target against deletion above READ COMMITTED. Index: the primary key.
-- Returns: the ids that left.
WITH chosen AS MATERIALIZED (
    SELECT * FROM django_mq_message
    WHERE id = ANY(%(ids)s::bigint[]) AND state <> 2
    FOR UPDATE SKIP LOCKED
), first AS MATERIALIZED (
    SELECT DISTINCT ON (message_id) * FROM chosen ORDER BY message_id, level DESC, place, id
), copied AS (
    INSERT INTO django_mq_message (
        queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
        correlation_id, group_key, published_at, deliver_at, expires_at, dead_reason, content_type,
        content_encoding, headers, properties, body)
    SELECT
        q.id, CASE WHEN n.state = 0 THEN 0 ELSE 1 END, {level}, CASE WHEN n.state = 0 THEN {place} ELSE 0 END,
        n.priority, 0, n.redelivered, false, n.message_id, n.type, n.correlation_id, n.group_key,
        n.published_at, CASE WHEN n.state = 0 THEN n.deliver_at END, n.expires_at, '', n.content_type,
        n.content_encoding, n.headers, n.properties, n.body
    FROM first n
    JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
    WHERE {read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.name = %(target)s FOR KEY SHARE)
    ORDER BY n.level DESC, n.place, n.id
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING message_id
)
DELETE FROM django_mq_message m
USING first, copied
WHERE m.id = first.id AND first.message_id = copied.message_id
RETURNING m.id
