-- Moves the deadline of a session that has not passed it, in place of its worker. One whose guarding connection has
-- ended is left alone: hasten.sql decides about it.
-- Locks: the session's row. Index: the primary key.
-- Returns: the id; no row when the session is given up.
UPDATE django_mq_workersession s
SET deadline = {now} + %(deadline_seconds)s * interval '1 second'
WHERE s.id = %(session)s AND s.deadline >= {now} AND (NOT s.guarded OR {attended})
RETURNING s.id
