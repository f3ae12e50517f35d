-- Asks for the last number of the history that can be seen.
-- Locks: nothing. Index: the primary key.
-- Returns: the number, 0 before the first.
SELECT coalesce(max(id), 0) FROM django_mq_history
