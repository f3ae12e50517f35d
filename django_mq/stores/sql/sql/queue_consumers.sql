-- Reads the consumers of a queue in live sessions, the asking one's own among them, as of their last heartbeats.
-- Locks: nothing. Index: django_mq_message_claimed for what each session holds.
-- Returns: for each consumer its session, priority, credit (0 is no limit), what is used of it for all queues
-- of the session together, if they share it, whether it is stopping, how many messages of this queue
-- the session holds, and whether it has said that all it can handle at a time is being handled.
SELECT
    c.session_id, c.priority, c.credit_limit,
    CASE WHEN s.kind = 'celery' THEN c.credit_used ELSE 0 END,
    c.state = 'stopping',
    (SELECT count(*) FROM django_mq_message m
     WHERE m.state = 2 AND m.queue_id = %(queue_id)s AND m.session_id = c.session_id),
    coalesce(s.busy >= s.slots, false)
FROM django_mq_consumer c
JOIN django_mq_workersession s ON s.id = c.session_id AND (s.deadline > {now} OR s.id = %(session)s)
WHERE c.queue_name = %(queue)s
