-- Reads messages of one queue in delivery order, those beyond a given position.
-- Locks: nothing. Index: django_mq_message_ready for ready ones; of the other states, which have no
-- index in delivery order, it sorts all that the queue holds.
-- Returns: the columns of Browsed.
WITH q AS (
    SELECT id, name FROM django_mq_queue WHERE name = %(queue)s
), head AS MATERIALIZED (
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM q) AND 0 = ANY(%(states)s::int[]) AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM q) AND 1 = ANY(%(states)s::int[]) AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 2 AND m.queue_id = (SELECT id FROM q) AND 2 = ANY(%(states)s::int[]) AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 3 AND m.queue_id = (SELECT id FROM q) AND 3 = ANY(%(states)s::int[]) AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
)
SELECT
    m.id, m.message_id, q.name, m.state, m.priority, m.attempts, m.published_at, m.deliver_at,
    m.expires_at, m.type, m.correlation_id, m.content_type, m.content_encoding, m.headers::text, m.body, m.dead_reason, m.level, m.place
FROM head
CROSS JOIN q
JOIN django_mq_message m ON m.id = head.id
ORDER BY m.level DESC, m.place, m.id
LIMIT %(limit)s
