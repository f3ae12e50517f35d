-- name: volatile_bind. Binds a volatile queue, or renews its binding.
-- Locks: the binding's row. Returns: nothing.
INSERT INTO django_mq_volatilebinding (exchange, exchange_type, pattern, queue_name, expires_at)
VALUES (%(exchange)s, %(exchange_type)s, %(pattern)s, %(queue)s, {ahead:seconds})
ON CONFLICT (exchange, pattern, queue_name)
DO UPDATE SET exchange_type = excluded.exchange_type, expires_at = excluded.expires_at

-- name: volatile_bindings. Reads the live volatile bindings of an exchange.
-- Locks: nothing. Index: the unique binding. Returns: pattern and queue.
SELECT pattern, queue_name FROM django_mq_volatilebinding WHERE exchange = %(exchange)s AND expires_at > {now}

-- name: volatile_drop_bindings. Deletes the bindings of a volatile queue.
-- Locks: the rows it deletes. No index: the table is small by design. Returns: nothing.
DELETE FROM django_mq_volatilebinding WHERE queue_name = %(queue)s

-- name: volatile_waiting. Asks whether some queues hold any living volatile message.
-- Locks: nothing. Index: django_mq_volatile_queue. Returns: one row if so.
SELECT 1 FROM django_mq_volatilemessage WHERE queue_name {in_texts:queues} AND expires_at > {now} LIMIT 1

-- name: volatile_take. Takes the oldest living volatile messages of some queues.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_volatile_queue. Returns: id, queue and payload, in
-- no order.
DELETE FROM django_mq_volatilemessage WHERE id {among:
    SELECT id FROM django_mq_volatilemessage
    WHERE queue_name {in_texts:queues} AND expires_at > {now}
    ORDER BY id LIMIT %(limit)s}
RETURNING id, queue_name, payload

-- name: volatile_drop_messages. Deletes the messages of a volatile queue.
-- Locks: the rows it deletes. Index: django_mq_volatile_queue. Returns: one row per message.
DELETE FROM django_mq_volatilemessage WHERE queue_name = %(queue)s {returning:id}
