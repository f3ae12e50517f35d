-- name: bind_exchange. Binds an exchange to another, or changes the selector of the binding.
-- Locks: the binding's row. Index: django_mq_exchangebinding_once. Returns: one row.
INSERT INTO django_mq_exchangebinding (exchange, pattern, selector, destination)
VALUES (%(exchange)s, %(pattern)s, %(selector)s, %(destination)s)
ON DUPLICATE KEY UPDATE selector = %(selector)s
