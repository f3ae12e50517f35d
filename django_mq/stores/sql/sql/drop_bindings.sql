-- Deletes a queue's bindings.
-- Locks: the rows it deletes. Index: the foreign key to the queue.
-- Returns: nothing.
DELETE FROM django_mq_binding WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
