-- Writes one message behind all others of its level, or at its due place.
-- Locks: the new row, and for sharing the queue's entry in the index of names, which nobody but
-- the deletion of the queue wants for itself: to pause it takes the row alone.
-- Index: the unique name of django_mq_queue.
-- Returns: the id; no row when the queue is unknown or closed. A message id that is taken is an error.
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
    %(content_type)s, %(content_encoding)s, %(headers)s, %(properties)s, %(body)s
FROM django_mq_queue q
CROSS JOIN (
    SELECT
        %(priority)s AS priority, CAST(%(expires_at)s AS DATETIME(6)) AS expires_at, %(ttl_seconds)s AS ttl_seconds,
        coalesce(CAST(%(deliver_at)s AS DATETIME(6)),
                 {now} + INTERVAL round(%(delay_seconds)s * 1000000) MICROSECOND) AS deliver_at
) n
WHERE q.name = %(queue_name)s AND NOT q.closed
  AND q.id = (SELECT held.id FROM django_mq_queue held WHERE held.name = %(queue_name)s LOCK IN SHARE MODE)
