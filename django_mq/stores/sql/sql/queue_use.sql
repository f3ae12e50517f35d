-- Asks what keeps a queue from being deleted.
-- Locks: the queue's row, so that the answer holds until the deletion. Index: its unique name.
-- Returns: how many queues name it as their dead-letter or expiry queue.
SELECT (SELECT count(*) FROM django_mq_queue d WHERE d.dead_letter_queue_id = q.id OR d.expiry_queue_id = q.id)
FROM django_mq_queue q WHERE q.name = %(queue)s FOR UPDATE
