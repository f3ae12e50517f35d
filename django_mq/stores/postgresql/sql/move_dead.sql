-- Moves dead messages to their queue's dead-letter queue, or its expiry queue, where it names one: attempts restart,
-- the origin stands in the headers. Without one, or when it is there already, they stay where they are.
-- Locks: the rows it moves; the targets against deletion above READ COMMITTED. Index: the primary key.
-- Returns: the ids that left.
WITH dead AS MATERIALIZED (
    SELECT DISTINCT ON (n.message_id, target.id)
        n.*, origin.name AS origin_name, target.id AS target_id
    FROM django_mq_message n
    JOIN django_mq_queue origin ON origin.id = n.queue_id
    JOIN django_mq_queue target ON target.id = CASE WHEN %(expired)s THEN origin.expiry_queue_id ELSE origin.dead_letter_queue_id END
        AND NOT target.closed
    WHERE n.id = ANY(%(ids)s::bigint[]) AND n.state = 3
    ORDER BY n.message_id, target.id, n.id
), copied AS (
    INSERT INTO django_mq_message (
        queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
        correlation_id, group_key, published_at, expires_at, dead_reason, content_type, content_encoding,
        headers, properties, body)
    SELECT
        q.id, 1, {level}, 0, n.priority, 0, false, false, n.message_id, n.type,
        n.correlation_id, n.group_key, {now}, {now} + coalesce(q.ttl_seconds, q.max_ttl_seconds) * interval '1 second',
        n.dead_reason, n.content_type, n.content_encoding,
        n.headers || jsonb_build_object(
            'x-origin-queue', n.origin_name, 'x-origin-attempts', n.attempts,
            'x-dead-reason', n.dead_reason, 'x-dead-at', n.dead_at),
        n.properties, n.body
    FROM dead n
    JOIN django_mq_queue q ON q.id = n.target_id
    WHERE {read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.id = n.target_id FOR KEY SHARE)
    ORDER BY n.id
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING message_id, queue_id
)
DELETE FROM django_mq_message m
USING dead, copied
WHERE m.id = dead.id AND dead.message_id = copied.message_id AND dead.target_id = copied.queue_id
RETURNING m.id
