-- Gives scheduled or ready messages another time to be delivered; one that is over makes them ready.
-- A value of a last-value queue is never scheduled.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message AS m
SET state = CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END, deliver_at = n.deliver_at, place = {place}
FROM django_mq_queue q
CROSS JOIN (SELECT %(deliver_at)s AS deliver_at) n
WHERE q.id = m.queue_id AND m.id IN (SELECT value FROM json_each(%(ids)s)) AND m.state < 2 AND m.value_key IS NULL
RETURNING id
