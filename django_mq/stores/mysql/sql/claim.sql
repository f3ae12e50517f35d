-- Locks the first ready messages of one queue, unless the queue is paused; lease.sql takes them.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_ready.
-- Returns: the messages, in delivery order, and their sizes; a body of more than its share is left out.
SELECT {claimed_columns}
FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
WHERE m.state = 1
  AND m.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused})
ORDER BY m.level DESC, m.place, m.id
LIMIT %(credit)s
FOR UPDATE SKIP LOCKED
