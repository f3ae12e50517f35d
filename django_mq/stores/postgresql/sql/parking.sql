-- name: _settled_aside
unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(delay_seconds)s::float8[], %(park_key)s::text[])
    AS given(id, claim, delay_seconds, park_key)

-- name: free_due. Makes the parked messages ready whose time has come, the earliest of each queue first. The array keeps
-- the plan on the primary key.
-- Locks: the rows it changes, skipping locked ones. Index: django_mq_message_waking. Returns: one row per message.
UPDATE django_mq_message SET {freed}
WHERE id = ANY(ARRAY(
    SELECT woken.id
    FROM django_mq_queue q
    CROSS JOIN LATERAL (
        SELECT p.id FROM django_mq_message p
        WHERE p.queue_id = q.id AND p.state = 7 AND p.parked_until <= {now}
        ORDER BY p.parked_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) woken
    WHERE %(every)s OR q.name = ANY(%(queues)s::text[])))
RETURNING id

-- name: _next_woken_microseconds
(SELECT (extract(epoch FROM p.parked_until - {now}) * 1000000)::bigint
 FROM django_mq_message p
 WHERE p.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND p.state = 7
   AND p.parked_until IS NOT NULL
 ORDER BY p.parked_until LIMIT 1)
