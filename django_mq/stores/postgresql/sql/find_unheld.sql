-- Finds a chunk of messages of a queue that nobody holds, none newer than an id.
-- Locks: nothing. Index: django_mq_message_ready, _due and _dead, one walk each.
-- The order makes it walk the index of each state, whatever the statistics say; for the dead the
-- range does, because the order of ids alone would be the primary key's too.
-- Returns: ids.
WITH q AS (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
SELECT id FROM (
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.deliver_at LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM django_mq_message m
     WHERE m.state = 3 AND m.queue_id BETWEEN (SELECT id FROM q) AND (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.queue_id, m.id LIMIT %(limit)s)
) unheld
LIMIT %(limit)s
