-- Moves the deadline of a session that has not passed it, in place of its worker.
-- Locks: the session's row. Index: the primary key.
-- Returns: one row; none when the session is given up.
UPDATE django_mq_workersession
SET deadline = {now} + INTERVAL round(%(deadline_seconds)s * 1000000) MICROSECOND
WHERE id = %(session)s AND deadline >= {now}
