-- Counts a queue's messages, stopping at the limit.
-- Locks: nothing. Index: the four partial indexes of a queue's states.
-- The order makes it walk the index of each state, whatever the statistics say.
-- Returns: the count.
WITH q AS (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
SELECT count(*) FROM (
    SELECT * FROM (SELECT 1 FROM django_mq_message m
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.deliver_at LIMIT %(limit)s)
    UNION ALL
    SELECT * FROM (SELECT 1 FROM django_mq_message m
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    SELECT * FROM (SELECT 1 FROM django_mq_message m
     WHERE m.state = 2 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.session_id LIMIT %(limit)s)
    UNION ALL
    SELECT * FROM (SELECT 1 FROM django_mq_message m
     WHERE m.state = 3 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.id LIMIT %(limit)s)
)
