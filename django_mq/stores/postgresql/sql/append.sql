-- Writes one message behind all others of its level, or at its due place.
-- Locks: nothing but the new row; the queue against deletion above READ COMMITTED. Index: the unique name of django_mq_queue.
-- Returns: the id; no row when the queue is unknown or closed, or the message id is taken.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, deliver_at, expires_at, dead_reason,
    content_type, content_encoding, headers, properties, body)
SELECT
    q.id,
    CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END,
    {level},
    {place},
    n.priority, 0, false, false, %(message_id)s, %(type)s,
    %(correlation_id)s, %(group_key)s, {now}, n.deliver_at,
    {expiry},
    '',
    %(content_type)s, %(content_encoding)s, %(headers)s::jsonb, %(properties)s::jsonb, %(body)s
FROM django_mq_queue q
CROSS JOIN (
    SELECT
        %(priority)s::int AS priority, %(expires_at)s::timestamptz AS expires_at,
        %(ttl_seconds)s::float8 AS ttl_seconds,
        coalesce(%(deliver_at)s::timestamptz,
                 {now} + %(delay_seconds)s::float8 * interval '1 second') AS deliver_at
) n
WHERE q.name = %(queue_name)s AND NOT q.closed
    AND ({read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.id = q.id FOR KEY SHARE))
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id
