-- Binds a volatile queue, or renews its binding.
-- Locks: the binding's row.
-- Returns: nothing of use.
INSERT INTO django_mq_volatilebinding (exchange, exchange_type, pattern, queue_name, expires_at)
VALUES (%(exchange)s, %(exchange_type)s, %(pattern)s, %(queue)s,
        {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND)
ON DUPLICATE KEY UPDATE exchange_type = %(exchange_type)s,
    expires_at = {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND
