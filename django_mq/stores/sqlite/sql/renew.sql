-- Moves a session's deadline.
-- Locks: the database for writing. Index: the primary key.
-- Returns: the id, and what it is told to do; no row when the session was reaped.
UPDATE django_mq_workersession
SET heartbeat_at = {now}, deadline = %(deadline_seconds_from_now)s,
    held = %(held)s, queues = %(queues)s, credit = %(credit)s,
    busy = %(busy)s, slots = %(slots)s, memory_bytes = %(memory_bytes)s
WHERE id = %(session)s
RETURNING id, conduct, given_credit
