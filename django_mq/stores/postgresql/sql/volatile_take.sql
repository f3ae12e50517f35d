-- Takes the oldest living volatile messages of some queues.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_volatile_queue.
-- The array is made once, see prune_history.sql.
-- Returns: id, queue and payload, in no order.
DELETE FROM django_mq_volatilemessage
WHERE id = ANY(ARRAY(
    SELECT id FROM django_mq_volatilemessage
    WHERE queue_name = ANY(%(queues)s::text[]) AND expires_at > {now}
    ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id, queue_name, payload
