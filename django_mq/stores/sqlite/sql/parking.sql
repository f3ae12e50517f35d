-- name: _settled_aside
(SELECT {given}, json_extract(value, '$.park_key') AS park_key, json_extract(value, '$.delay_seconds') AS delay_seconds,
        json_extract(value, '$.delay_seconds_from_now') AS later
 FROM json_each(%(given)s)) given

-- name: free_due. Makes the parked messages ready whose time has come, the earliest of each queue first.
-- Locks: the database for writing. Index: django_mq_message_waking. Returns: one row per message.
UPDATE django_mq_message SET {freed}
WHERE id IN (
    SELECT woken.id
    FROM django_mq_queue q
    CROSS JOIN django_mq_message woken ON woken.id IN (
        SELECT p.id FROM django_mq_message p
        WHERE p.queue_id = q.id AND p.state = 7 AND p.parked_until <= {now}
        ORDER BY p.parked_until LIMIT %(limit)s)
    WHERE %(every)s OR q.name {in_texts:queues})
RETURNING id

-- name: _next_woken_microseconds
(SELECT {microseconds:p.parked_until} - %(now_microseconds)s
 FROM django_mq_message p
 WHERE p.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND p.state = 7
   AND p.parked_until IS NOT NULL
 ORDER BY p.parked_until LIMIT 1)

-- name: next_woken. Looks for the first parked message of the named queues whose time is set.
-- Locks: nothing. Index: django_mq_message_waking, one probe per queue. Returns: seconds until then, or null.
SELECT ({microseconds:min(woken.parked_until)} - %(now_microseconds)s) / 1000000.0
FROM (
    SELECT (
        SELECT p.parked_until FROM django_mq_message p
        WHERE p.queue_id = q.id AND p.state = 7 AND p.parked_until IS NOT NULL
        ORDER BY p.parked_until LIMIT 1
    ) AS parked_until
    FROM django_mq_queue q
    WHERE q.name {in_texts:queues}
) woken
