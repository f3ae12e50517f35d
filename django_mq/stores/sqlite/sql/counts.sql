-- Counts each state of each queue, every count stopping at the limit.
-- Locks: nothing. Index: django_mq_message_due, _ready, _claimed, _dead; at most limit entries of each.
-- The order makes it walk the index of each state, whatever the statistics say.
-- Returns: name, scheduled, ready, claimed, dead, and how long in seconds a message has been waiting that could
-- be delivered: the longest of the ready ones at the head of a level, and of the scheduled ones that are due;
-- and how many of the scheduled ones are due.
SELECT
    q.name,
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 ORDER BY m.deliver_at LIMIT %(limit)s)),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 1 ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 2 ORDER BY m.session_id LIMIT %(limit)s)),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 3 ORDER BY m.id LIMIT %(limit)s)),
    (SELECT (julianday({now}) - julianday(min(waiting.since))) * 86400.0
     FROM (
        SELECT max(coalesce(oldest.deliver_at, oldest.published_at), oldest.published_at) AS since
        FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]') AS levels
        JOIN django_mq_message oldest ON oldest.id = (
            SELECT m.id FROM django_mq_message m
            WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.value
            ORDER BY m.place, m.id
            LIMIT 1)
        UNION ALL
        SELECT min(m.deliver_at) FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
     ) waiting),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now} ORDER BY m.deliver_at LIMIT %(limit)s))
FROM django_mq_queue q
WHERE %(names)s IS NULL OR q.name IN (SELECT value FROM json_each(%(names)s))
ORDER BY q.name
