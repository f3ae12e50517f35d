-- Moves a session's deadline.
-- Locks: the session's row. Index: the primary key.
-- Returns: one row; none when the session was reaped.
UPDATE django_mq_workersession
SET heartbeat_at = {now}, deadline = {now} + INTERVAL round(%(deadline_seconds)s * 1000000) MICROSECOND,
    held = %(held)s, queues = %(queues)s, credit = %(credit)s,
    busy = %(busy)s, slots = %(slots)s, memory_bytes = %(memory_bytes)s
WHERE id = %(session)s
