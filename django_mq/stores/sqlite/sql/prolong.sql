-- Moves the deadline of a session that has not passed it, in place of its worker.
-- Locks: the database for writing. Index: the primary key.
-- Returns: the id; no row when the session is given up.
UPDATE django_mq_workersession
SET deadline = %(deadline_seconds_from_now)s
WHERE id = %(session)s AND deadline >= {now}
RETURNING id
