-- Counts each state of each queue, every count stopping at the limit: only what has no entry beyond
-- the limit is counted. (No subquery of MariaDB's with a limit of its own may count for an outer row.)
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state; at most twice limit
-- entries of each state.
-- Returns: name, scheduled, ready, claimed, dead, and the age of the oldest ready message at the
-- head of a level, in seconds.
SELECT
    q.name,
    CASE WHEN (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 0 LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 0) END,
    CASE WHEN (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 1 LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 1) END,
    CASE WHEN (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 2 LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 2) END,
    CASE WHEN (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 3 LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = 3) END,
    (SELECT timestampdiff(MICROSECOND, min((
            SELECT greatest(coalesce(m.deliver_at, m.published_at), m.published_at)
            FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
            WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
            ORDER BY m.place, m.id
            LIMIT 1)), {now}) / 1e6
     FROM {levels} levels)
FROM django_mq_queue q
WHERE %(every)s OR q.name IN %(names)s
ORDER BY q.name
