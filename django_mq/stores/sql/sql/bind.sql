-- Binds a queue to an exchange.
-- Locks: the new row. Index: django_mq_binding_once.
-- Returns: nothing.
INSERT INTO django_mq_binding (exchange, exchange_type, pattern, queue_id)
SELECT %(exchange)s, %(exchange_type)s, %(pattern)s, id FROM django_mq_queue WHERE name = %(queue)s
ON CONFLICT (exchange, pattern, queue_id) DO NOTHING
