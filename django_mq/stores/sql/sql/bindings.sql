-- Reads the durable bindings of an exchange.
-- Locks: nothing. Index: django_mq_binding_once.
-- Returns: exchange type, pattern and queue.
SELECT b.exchange_type, b.pattern, q.name
FROM django_mq_binding b
JOIN django_mq_queue q ON q.id = b.queue_id
WHERE b.exchange = %(exchange)s
ORDER BY b.id
