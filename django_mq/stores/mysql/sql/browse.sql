-- Reads messages of one queue in delivery order, those beyond a given position.
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state.
-- Returns: the columns of Browsed.
SELECT
    m.id, m.message_id, %(queue)s, m.state, m.priority, m.attempts, m.published_at, m.deliver_at,
    m.expires_at, m.type, m.correlation_id, m.content_type, m.content_encoding, m.headers, m.body, m.dead_reason, m.level, m.place
FROM (
    (SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
       AND 0 IN %(states)s AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
       AND 1 IN %(states)s AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.state = 2 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
       AND 2 IN %(states)s AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.state = 3 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
       AND 3 IN %(states)s AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
) head
STRAIGHT_JOIN django_mq_message m ON m.id = head.id
ORDER BY m.level DESC, m.place, m.id
LIMIT %(limit)s
