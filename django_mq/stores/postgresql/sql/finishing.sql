-- Names the open transactions of others that may have been given a number of the history: each holds a
-- lock of the numbers' sequence to its end.
-- Locks: nothing. Index: none; reads the server's table of locks.
-- Returns: one row per transaction.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = pg_get_serial_sequence('django_mq_history', 'id')::regclass
  AND pid <> pg_backend_pid()
