-- Reads the highest message id.
-- Locks: nothing. Index: the primary key, its last entry.
-- Returns: the id, null if there is no message.
SELECT max(id) FROM django_mq_message
