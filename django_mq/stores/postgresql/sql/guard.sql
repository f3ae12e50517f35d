-- Has this connection stand for a session: an advisory lock that the server lets go when the
-- connection ends. Through a pooler the connection is not the worker's own, which the number of
-- the server's process tells; then no lock is taken.
-- Locks: the session's row; an advisory lock in the class of the queues, until the connection ends.
-- Index: the primary key.
-- Returns: whether the connection is the worker's own, and whether it stands for the session now;
-- no row when the session was reaped.
UPDATE django_mq_workersession s
SET guarded = CASE WHEN pg_backend_pid() = %(backend)s
                   THEN pg_try_advisory_lock(28017, mod(s.id, 2147483647)::int) ELSE false END,
    deadline = {now} + %(deadline_seconds)s * interval '1 second'
WHERE s.id = %(session)s
RETURNING pg_backend_pid() = %(backend)s, s.guarded
