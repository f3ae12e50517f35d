-- Makes due messages of every queue ready, earliest of each queue first.
-- Locks: the database for writing. Index: django_mq_message_due.
-- Returns: one row per promoted message.
UPDATE django_mq_message
SET state = 1
WHERE id IN (
    SELECT due.id
    FROM django_mq_queue q
    CROSS JOIN django_mq_message due ON due.id IN (
        SELECT d.id FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}
        ORDER BY d.deliver_at
        LIMIT %(limit)s))
RETURNING id
