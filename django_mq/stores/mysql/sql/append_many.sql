-- Writes many messages in the order of a JSON document; hold_queues.sql has run.
-- A value too long for its column is refused by the column: as a narrower type here it would be read as null.
-- Locks: the new rows. Index: the primary key of django_mq_queue.
-- Returns: one row for each; fewer when a queue is closed. A message id that is taken is an error.
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
    n.content_type, n.content_encoding, n.headers, n.properties, from_base64(n.body)
FROM (
    SELECT
        u.*,
        coalesce(u.given_at, {now} + INTERVAL round(u.delay_seconds * 1000000) MICROSECOND) AS deliver_at
    FROM JSON_TABLE(%(messages)s, '$[*]' COLUMNS (
        ordinal FOR ORDINALITY,
        queue_id BIGINT PATH '$.queue_id',
        message_id VARCHAR(36) PATH '$.message_id',
        body LONGTEXT PATH '$.body',
        content_type LONGTEXT CHARACTER SET utf8mb4 PATH '$.content_type',
        content_encoding LONGTEXT CHARACTER SET utf8mb4 PATH '$.content_encoding',
        headers LONGTEXT CHARACTER SET utf8mb4 PATH '$.headers',
        properties LONGTEXT CHARACTER SET utf8mb4 PATH '$.properties',
        priority INT PATH '$.priority',
        type LONGTEXT CHARACTER SET utf8mb4 PATH '$.type',
        correlation_id LONGTEXT CHARACTER SET utf8mb4 PATH '$.correlation_id',
        group_key LONGTEXT CHARACTER SET utf8mb4 PATH '$.group_key',
        given_at DATETIME(6) PATH '$.deliver_at',
        delay_seconds DOUBLE PATH '$.delay_seconds',
        expires_at DATETIME(6) PATH '$.expires_at',
        ttl_seconds DOUBLE PATH '$.ttl_seconds'
    )) AS u
) n
JOIN django_mq_queue q ON q.id = n.queue_id AND NOT q.closed
ORDER BY n.ordinal
