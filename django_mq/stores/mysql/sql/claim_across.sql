-- Locks those of the given messages that are still ready; lease.sql takes them.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: the messages, in no order, and their sizes; a body of more than its share is left out.
SELECT {claimed_columns}
FROM django_mq_message m
WHERE m.id IN %(ids)s AND m.state = 1
FOR UPDATE SKIP LOCKED
