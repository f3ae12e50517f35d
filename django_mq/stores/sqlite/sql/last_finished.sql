-- Asks for the last number of the history that was given. Who writes next has not begun.
-- Locks: nothing.
-- Returns: the number, 0 before the first.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'django_mq_history'), 0)
