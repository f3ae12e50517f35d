-- Asks which queues have messages that are due.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue.
-- Returns: ids of queues.
SELECT q.id FROM django_mq_queue q
WHERE (%(every)s OR q.name IN %(queues)s) AND EXISTS (
    SELECT 1 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
    WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now})
