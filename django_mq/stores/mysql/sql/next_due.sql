-- Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue.
-- Returns: seconds until it is due, null when there is none.
SELECT timestampdiff(MICROSECOND, {now}, min(due.deliver_at)) / 1e6
FROM (
    SELECT (
        SELECT d.deliver_at FROM django_mq_message d FORCE INDEX (django_mq_message_due)
        WHERE d.queue_id = q.id AND d.state = 0
        ORDER BY d.deliver_at
        LIMIT 1
    ) AS deliver_at
    FROM django_mq_queue q
    WHERE q.name IN %(queues)s
) due
