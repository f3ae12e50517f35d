-- Reads messages of one queue, in any state, in the order of their arrival.
-- Locks: nothing. Index: the primary key; passes what has arrived in other queues.
-- m.queue_id + 0 keeps the walk on it, whatever the queue's share of the table.
-- Returns: the columns of Browsed.
SELECT
    m.id, m.message_id, q.name, m.state, m.priority, m.attempts, m.published_at, m.deliver_at,
    m.expires_at, m.type, m.correlation_id, m.content_type, m.content_encoding, m.headers::text, m.body, m.dead_reason, m.level, m.place
FROM django_mq_message m
CROSS JOIN (SELECT id, name FROM django_mq_queue WHERE name = %(queue)s) q
WHERE m.id > %(after)s AND m.queue_id + 0 = q.id
ORDER BY m.id
LIMIT %(limit)s
