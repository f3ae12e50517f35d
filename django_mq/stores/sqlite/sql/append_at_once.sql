-- Writes one message that is ready at once and brings no time to live: what append.sql does, with half
-- of its parameters and none of its reckoning with times.
-- Locks: the database for writing. Index: the unique name of django_mq_queue.
-- Returns: the id; no row when the queue is unknown or closed, or the message id is taken.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, expires_at, dead_reason,
    content_type, content_encoding, headers, properties, body)
SELECT
    q.id, 1, {level}, 0, n.priority, 0, 0, 0, %(message_id)s, %(type)s,
    %(correlation_id)s, %(group_key)s, {now},
    {queue_expiry}, '',
    %(content_type)s, %(content_encoding)s, %(headers)s, %(properties)s, %(body)s
FROM django_mq_queue q
CROSS JOIN (SELECT %(priority)s AS priority) n
WHERE q.name = %(queue_name)s AND NOT q.closed
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id
