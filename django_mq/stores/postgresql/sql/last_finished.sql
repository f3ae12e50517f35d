-- Asks for the last number of the history that was given, whether or not its transaction has committed.
-- Locks: nothing.
-- Returns: the number, 0 before the first.
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('django_mq_history', 'id')::regclass), 0)
