-- Writes one message that is ready at once and brings no time to live: what append.sql does, in an
-- expression or two per column. Nothing is prepared on the caller's connection, which may lead
-- through a pooler, so each publish plans this anew: joining the level's priority as _level.sql
-- needs it would take longer than all the rest. So would the lock that append.sql takes above READ COMMITTED: there this
-- writes nothing, and append.sql is run.
-- The level is the same as level_of() in django_mq/engine/levels.py.
-- Locks: nothing but the new row. Index: the unique name of django_mq_queue.
-- Returns: the id; no row above READ COMMITTED, when the queue is unknown or closed, or the message id is taken.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, expires_at, dead_reason,
    content_type, content_encoding, headers, properties, body)
SELECT
    q.id, 1,
    CASE WHEN q.kind = 'fifo' THEN 0
         ELSE greatest(0, least(q.levels - 1, %(priority)s - (5 - (q.levels + 1) / 2))) END,
    0, %(priority)s, 0, false, false, %(message_id)s, %(type)s,
    %(correlation_id)s, %(group_key)s, {now}, {now} + coalesce(q.ttl_seconds, q.max_ttl_seconds) * interval '1 second', '',
    %(content_type)s, %(content_encoding)s, %(headers)s::jsonb, %(properties)s::jsonb, %(body)s
FROM django_mq_queue q
WHERE q.name = %(queue_name)s AND NOT q.closed
    AND {read_committed}
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id
