-- Reads the first ready messages of one queue, unless the queue is paused; lease.sql takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready.
-- Returns: the messages, in order; the store itself cuts them before a suspect.
SELECT {claimed_columns}
FROM (SELECT q.id, q.name AS queue_name FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) chosen
CROSS JOIN django_mq_message m ON m.queue_id = chosen.id AND m.state = 1
ORDER BY m.level DESC, m.place, m.id
LIMIT %(credit)s
