-- Gives scheduled or ready messages another time to be delivered; one that is over makes them ready.
-- A value of a last-value queue is never scheduled.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
CROSS JOIN (SELECT CAST(%(deliver_at)s AS DATETIME(6)) AS deliver_at) n
SET m.state = CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END, m.deliver_at = n.deliver_at, m.place = {place}
WHERE m.id IN %(ids)s AND m.state < 2 AND m.value_key IS NULL
