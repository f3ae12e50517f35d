-- Counts each state of each queue, every count stopping at the limit.
-- Locks: nothing. Index: django_mq_message_due, _ready, _claimed, _dead; at most limit entries of each.
-- The order makes it walk the index of each state, whatever the statistics say; for the dead the
-- range does, because the order of ids alone would be the primary key's too.
-- Returns: name, scheduled, ready, claimed, dead, and how long in seconds a message has been waiting that could
-- be delivered: the longest of the ready ones at the head of a level, and of the scheduled ones that are due;
-- and how many of the scheduled ones are due.
SELECT
    q.name,
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 ORDER BY m.deliver_at LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 1 ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 2 ORDER BY m.session_id LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id BETWEEN q.id AND q.id AND m.state = 3 ORDER BY m.queue_id, m.id LIMIT %(limit)s) c),
    (SELECT extract(epoch FROM {now} - min(waiting.since))::float8
     FROM (
        SELECT greatest(oldest.deliver_at, oldest.published_at) AS since
        FROM generate_series(0, 9) AS levels(level)
        CROSS JOIN LATERAL (
            SELECT m.deliver_at, m.published_at FROM django_mq_message m
            WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
            ORDER BY m.place, m.id
            LIMIT 1
        ) oldest
        UNION ALL
        (SELECT m.deliver_at FROM django_mq_message m
         WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
         ORDER BY m.deliver_at
         LIMIT 1)
     ) waiting),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now} ORDER BY m.deliver_at LIMIT %(limit)s) c)
FROM django_mq_queue q
WHERE %(names)s::text[] IS NULL OR q.name = ANY(%(names)s::text[])
ORDER BY q.name
