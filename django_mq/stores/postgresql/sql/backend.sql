-- Asks which server process runs this connection's statements.
-- Locks: nothing.
-- Returns: its process id.
SELECT pg_backend_pid()
