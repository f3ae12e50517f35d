-- Asks for the last number of the history that was given, whether or not its transaction has committed; the last
-- that is committed, where the role may not read the sequence.
-- Locks: nothing.
-- Returns: the number, 0 before the first.
SELECT CASE
    WHEN has_sequence_privilege(pg_get_serial_sequence('django_mq_history', 'id'), 'USAGE, SELECT')
    THEN coalesce(pg_sequence_last_value(pg_get_serial_sequence('django_mq_history', 'id')::regclass), 0)
    ELSE (SELECT coalesce(max(id), 0) FROM django_mq_history) END
