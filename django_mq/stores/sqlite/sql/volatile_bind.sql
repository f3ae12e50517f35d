-- Binds a volatile queue, or renews its binding.
-- Locks: the database for writing.
-- Returns: nothing.
INSERT INTO django_mq_volatilebinding (exchange, exchange_type, pattern, queue_name, expires_at)
VALUES (%(exchange)s, %(exchange_type)s, %(pattern)s, %(queue)s, %(seconds_from_now)s)
ON CONFLICT (exchange, pattern, queue_name)
DO UPDATE SET exchange_type = excluded.exchange_type, expires_at = excluded.expires_at
