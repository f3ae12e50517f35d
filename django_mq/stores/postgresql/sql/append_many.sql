-- Writes many messages in the order of the arrays.
-- Locks: nothing but the new rows; the queues against deletion above READ COMMITTED. Index: the unique name of django_mq_queue.
-- Returns: the ids in order; fewer than asked when a queue is unknown or closed, or an id is taken.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, deliver_at, expires_at, dead_reason,
    content_type, content_encoding, headers, properties, body)
SELECT
    q.id,
    CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END,
    {level},
    {place},
    n.priority, 0, false, false, n.message_id, n.type,
    n.correlation_id, n.group_key, {now}, n.deliver_at,
    {expiry},
    '',
    n.content_type, n.content_encoding, n.headers::jsonb, n.properties::jsonb, n.body
FROM (
    SELECT
        u.ordinal, u.queue_name, u.message_id, u.body, u.content_type, u.content_encoding, u.headers,
        u.properties, u.priority, u.type, u.correlation_id, u.group_key, u.expires_at, u.ttl_seconds,
        coalesce(u.deliver_at, {now} + u.delay_seconds * interval '1 second') AS deliver_at
    FROM unnest(
        %(queue_name)s::text[], %(message_id)s::uuid[], %(body)s::bytea[], %(content_type)s::text[],
        %(content_encoding)s::text[], %(headers)s::text[], %(properties)s::text[], %(priority)s::int[],
        %(type)s::text[], %(correlation_id)s::text[], %(group_key)s::text[],
        %(deliver_at)s::timestamptz[], %(delay_seconds)s::float8[],
        %(expires_at)s::timestamptz[], %(ttl_seconds)s::float8[]
    ) WITH ORDINALITY AS u(
        queue_name, message_id, body, content_type, content_encoding, headers, properties, priority,
        type, correlation_id, group_key, deliver_at, delay_seconds, expires_at, ttl_seconds, ordinal)
) n
JOIN django_mq_queue q ON q.name = n.queue_name AND NOT q.closed
WHERE {read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.name = n.queue_name FOR KEY SHARE)
ORDER BY n.ordinal
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id
