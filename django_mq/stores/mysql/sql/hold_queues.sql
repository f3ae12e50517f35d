-- Keeps queues from being deleted until messages for them are committed.
-- Locks: for sharing, the queues' entries in the index of names, as append.sql does.
-- Index: the unique name of django_mq_queue.
-- Returns: their names and ids.
SELECT name, id FROM django_mq_queue WHERE name IN %(names)s LOCK IN SHARE MODE
