-- Asks for the last arrival number that can be seen.
-- Locks: nothing. Index: the primary key.
-- Returns: the number, 0 before the first.
SELECT coalesce(max(id), 0) FROM django_mq_message
