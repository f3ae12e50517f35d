-- Remembers the highest id in use after rows were given new ones: no id may come twice.
-- Locks: the database for writing. Index: the primary key.
-- Returns: nothing.
UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(id), 0) FROM django_mq_message))
WHERE name = 'django_mq_message'
