-- Moves a session's deadline.
-- Locks: the session's row. Index: the primary key.
-- Returns: the id; no row when the session was reaped.
UPDATE django_mq_workersession
SET heartbeat_at = {now}, deadline = {now} + %(deadline_seconds)s * interval '1 second',
    held = %(held)s, queues = %(queues)s::jsonb, credit = %(credit)s
WHERE id = %(session)s
RETURNING id
