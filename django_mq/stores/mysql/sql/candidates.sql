-- Reads the first ready messages of one queue, unless the queue is paused; claim_across.sql locks
-- the best of all queues.
-- Locks: nothing. Index: django_mq_message_ready.
-- Returns: id and priority, in delivery order.
SELECT m.id, m.priority
FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
WHERE m.state = 1
  AND m.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused})
ORDER BY m.level DESC, m.place, m.id
LIMIT %(candidates)s
