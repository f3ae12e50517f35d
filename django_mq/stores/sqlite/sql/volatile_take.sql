-- Takes the oldest living volatile messages of some queues.
-- Locks: the database for writing. Index: django_mq_volatile_queue.
-- Returns: id, queue and payload, in no order.
DELETE FROM django_mq_volatilemessage
WHERE id IN (
    SELECT id FROM django_mq_volatilemessage
    WHERE queue_name IN (SELECT value FROM json_each(%(queues)s)) AND expires_at > {now}
    ORDER BY id LIMIT %(limit)s)
RETURNING id, queue_name, payload
