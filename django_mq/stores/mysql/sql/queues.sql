-- name: bind. Binds a queue to an exchange, or changes the selector of the binding.
-- Locks: the binding's row. Index: django_mq_binding_once. Returns: one row.
INSERT INTO django_mq_binding (exchange, exchange_type, pattern, selector, queue_id)
SELECT %(exchange)s, %(exchange_type)s, %(pattern)s, %(selector)s, q.id
FROM django_mq_queue q WHERE q.name = %(queue)s
ON DUPLICATE KEY UPDATE selector = %(selector)s
