-- Names the open transactions of others that have written messages, or may have: whoever writes into a
-- table has locked it before the row gets its id, until the end of the transaction.
-- Locks: nothing. Index: none; reads the server's table of locks.
-- Returns: one row per transaction.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = 'django_mq_message'::regclass
  AND mode NOT IN ('AccessShareLock', 'RowShareLock')
  AND pid <> pg_backend_pid()
