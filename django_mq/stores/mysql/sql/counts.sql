-- Counts each state of each queue, every count stopping at the limit: only what has no entry beyond
-- the limit is counted. (No subquery of MariaDB's with a limit of its own may count for an outer row.)
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state, at most twice limit
-- entries of each state; django_mq_message_due, its first entry, and at most twice limit of what is due. The end of
-- all time stands for none, as least() of a null is null.
-- Returns: name, scheduled, ready, claimed, dead, and how long in seconds a message has been waiting that could
-- be delivered: the longest of the ready ones at the head of a level, and of the scheduled ones that are due;
-- and how many of the scheduled ones are due.
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
    (SELECT timestampdiff(MICROSECOND, nullif(min(least(
            coalesce((
                SELECT greatest(coalesce(m.deliver_at, m.published_at), m.published_at)
                FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
                ORDER BY m.place, m.id
                LIMIT 1), TIMESTAMP '9999-12-31 00:00:00'),
            CASE WHEN levels.level > 0 THEN TIMESTAMP '9999-12-31 00:00:00' ELSE coalesce((
                SELECT d.deliver_at FROM django_mq_message d FORCE INDEX (django_mq_message_due)
                WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}
                ORDER BY d.deliver_at
                LIMIT 1), TIMESTAMP '9999-12-31 00:00:00') END)), TIMESTAMP '9999-12-31 00:00:00'), {now}) / 1e6
     FROM {levels} levels),
    CASE WHEN (SELECT 1 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
               WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message d FORCE INDEX (django_mq_message_due)
               WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}) END
FROM django_mq_queue q
WHERE %(every)s OR q.name IN %(names)s
ORDER BY q.name
