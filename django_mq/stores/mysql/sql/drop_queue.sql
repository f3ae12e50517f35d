-- Deletes a queue's row; drop_bindings.sql has run.
-- Locks: the row. Index: the queue's unique name.
-- Returns: one row if it existed.
DELETE FROM django_mq_queue WHERE name = %(queue)s
