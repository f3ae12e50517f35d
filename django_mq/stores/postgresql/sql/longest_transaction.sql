-- Asks for the transaction that keeps deleted rows of this database from being cleaned up for the longest time.
-- Locks: nothing.
-- Returns: its process, its age in seconds, and what the process calls itself; no row without one.
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.xact_start)::float8, coalesce(a.application_name, '')
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND a.backend_xmin IS NOT NULL AND a.xact_start IS NOT NULL
ORDER BY a.xact_start
LIMIT 1
