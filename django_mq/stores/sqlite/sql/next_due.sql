-- Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue.
-- What is due already waits in a paused queue, where no claim has looked: it is no reason to look again.
-- Returns: seconds until it is due, null when there is none.
SELECT (CAST(strftime('%%s', substr(min(due.deliver_at), 1, 19)) AS INTEGER) * 1000000
        + CAST(substr(min(due.deliver_at), 21, 6) AS INTEGER) - %(now_microseconds)s) / 1000000.0
FROM (
    SELECT (
        SELECT d.deliver_at FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND (d.deliver_at > {now} OR NOT {paused})
        ORDER BY d.deliver_at
        LIMIT 1
    ) AS deliver_at
    FROM django_mq_queue q
    WHERE q.name IN (SELECT value FROM json_each(%(queues)s))
) due
