-- Reads the live volatile bindings of an exchange.
-- Locks: nothing. Index: the unique binding.
-- Returns: pattern and queue.
SELECT pattern, queue_name FROM django_mq_volatilebinding
WHERE exchange = %(exchange)s AND expires_at > {now}
