-- Asks what keeps a queue from being deleted.
-- Locks: nothing; runs inside the write transaction. Index: its unique name.
-- Returns: how many queues name it as their dead-letter or expiry queue.
SELECT (SELECT count(*) FROM django_mq_queue d WHERE d.dead_letter_queue_id = q.id OR d.expiry_queue_id = q.id)
FROM django_mq_queue q WHERE q.name = %(queue)s
