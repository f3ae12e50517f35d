-- name: bind. Binds a queue to an exchange; binding again changes nothing.
-- Locks: the new row. Index: django_mq_binding_once. Returns: one row.
INSERT INTO django_mq_binding (exchange, exchange_type, pattern, queue_id)
SELECT %(exchange)s, %(exchange_type)s, %(pattern)s, q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON DUPLICATE KEY UPDATE queue_id = q.id
