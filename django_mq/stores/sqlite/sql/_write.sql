INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, deliver_at, expires_at, dead_reason,
    content_type, content_encoding, headers, properties, body)
SELECT
    q.id,
    CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END,
    {level},
    {place},
    n.priority, 0, 0, 0, %(message_id)s, %(type)s,
    %(correlation_id)s, %(group_key)s, {now}, n.deliver_at,
    {expiry},
    '',
    %(content_type)s, %(content_encoding)s, %(headers)s, %(properties)s, %(body)s
FROM django_mq_queue q
CROSS JOIN (
    SELECT
        %(priority)s AS priority,
        coalesce(%(deliver_at)s, %(delay_seconds_from_now)s) AS deliver_at
) n
WHERE q.name = %(queue_name)s AND NOT q.closed
ON CONFLICT (message_id, queue_id) DO NOTHING
