-- name: volatile_bind. Binds a volatile queue, or renews its binding.
-- Locks: the binding's row. Returns: nothing of use.
INSERT INTO django_mq_volatilebinding (exchange, exchange_type, pattern, queue_name, expires_at)
VALUES (%(exchange)s, %(exchange_type)s, %(pattern)s, %(queue)s,
        {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND)
ON DUPLICATE KEY UPDATE exchange_type = %(exchange_type)s,
    expires_at = {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND

-- name: volatile_put. Leaves a copy of a volatile message for one queue.
-- Locks: the new row. Returns: its id.
INSERT INTO django_mq_volatilemessage (queue_name, payload, expires_at)
VALUES (%(queue)s, %(payload)s, {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND)

-- name: volatile_take. Locks the oldest living volatile messages of some queues; volatile_drop deletes them.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_volatile_queue. Returns: id, queue and payload, in
-- order.
SELECT id, queue_name, payload FROM django_mq_volatilemessage
WHERE queue_name IN %(queues)s AND expires_at > {now}
ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: volatile_drop. Deletes volatile messages that this transaction has locked.
-- Locks: the rows it deletes. Index: the primary key. Returns: one row per message.
DELETE FROM django_mq_volatilemessage WHERE id IN %(ids)s
