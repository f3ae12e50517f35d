-- Locks the due messages of one queue, earliest first.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_due.
-- Returns: ids.
SELECT d.id FROM django_mq_message d FORCE INDEX (django_mq_message_due)
WHERE d.queue_id = %(queue_id)s AND d.state = 0 AND d.deliver_at <= {now}
ORDER BY d.deliver_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
