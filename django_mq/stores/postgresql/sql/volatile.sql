-- name: volatile_put. Leaves a copy of a volatile message for each queue.
-- Locks: the new rows. Returns: nothing.
INSERT INTO django_mq_volatilemessage (queue_name, payload, expires_at)
SELECT name, %(payload)s, {now} + %(seconds)s * interval '1 second' FROM unnest(%(queues)s::text[]) AS given(name)
