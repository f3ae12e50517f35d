-- name: volatile_put. Leaves a copy of a volatile message for each queue.
-- Locks: the database for writing. Returns: nothing.
INSERT INTO django_mq_volatilemessage (queue_name, payload, expires_at)
SELECT value, %(payload)s, %(seconds_from_now)s FROM json_each(%(queues)s)
