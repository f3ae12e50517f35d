-- Locks the oldest living volatile messages of some queues; volatile_drop.sql deletes them.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_volatile_queue.
-- Returns: id, queue and payload, in order.
SELECT id, queue_name, payload FROM django_mq_volatilemessage
WHERE queue_name IN %(queues)s AND expires_at > {now}
ORDER BY id LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
