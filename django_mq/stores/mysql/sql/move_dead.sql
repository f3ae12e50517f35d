-- Copies one dead message to its queue's dead-letter queue, or its expiry queue, where it names one: attempts restart,
-- the origin stands in the headers. drop_messages.sql removes what it was. A message id that is
-- there already is an error.
-- Locks: the new row. Index: the primary key.
-- Returns: the new id; no row without a dead-letter queue.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, expires_at, dead_reason, content_type, content_encoding,
    headers, properties, body)
SELECT
    q.id, 1, {level}, 0, n.priority, 0, false, false, n.message_id, n.type,
    n.correlation_id, n.group_key, {now},
    {now} + INTERVAL round(least(coalesce(q.ttl_seconds, q.max_ttl_seconds), 2e11) * 1000000) MICROSECOND,
    n.dead_reason, n.content_type, n.content_encoding,
    json_set(n.headers, '$."x-origin-queue"', origin.name, '$."x-origin-attempts"', n.attempts,
             '$."x-dead-reason"', n.dead_reason,
             '$."x-dead-at"', date_format(n.dead_at, '%%Y-%%m-%%dT%%H:%%i:%%s.%%f+00:00')),
    n.properties, n.body
FROM django_mq_message n
JOIN django_mq_queue origin ON origin.id = n.queue_id
JOIN django_mq_queue q ON q.id = CASE WHEN %(expired)s THEN origin.expiry_queue_id ELSE origin.dead_letter_queue_id END AND NOT q.closed
WHERE n.id = %(id)s AND n.state = 3
