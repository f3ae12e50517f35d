-- Asks which sequences the role may not use, of those that number messages and the history.
-- Locks: nothing. Reads catalogues only.
-- Returns: their names.
SELECT pg_get_serial_sequence(t.name, 'id')
FROM (VALUES ('django_mq_message'), ('django_mq_history')) AS t(name)
WHERE NOT has_sequence_privilege(pg_get_serial_sequence(t.name, 'id'), 'USAGE')
