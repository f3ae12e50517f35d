-- Leaves a copy of a volatile message for one queue.
-- Locks: the new row.
-- Returns: its id.
INSERT INTO django_mq_volatilemessage (queue_name, payload, expires_at)
VALUES (%(queue)s, %(payload)s, {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND)
