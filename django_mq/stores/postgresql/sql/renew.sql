-- Moves a session's deadline.
-- Locks: the session's row. Index: the primary key, twice.
-- Returns: the id, and whether no older session lives or its connection has ended; no row when the
-- session was reaped.
UPDATE django_mq_workersession renewed
SET heartbeat_at = {now}, deadline = {now} + %(deadline_seconds)s * interval '1 second',
    held = %(held)s, queues = %(queues)s::jsonb, credit = %(credit)s
WHERE renewed.id = %(session)s
RETURNING renewed.id, NOT coalesce((
    SELECT NOT s.guarded OR {attended}
    FROM django_mq_workersession s
    WHERE s.id < %(session)s AND s.deadline >= {now}
    ORDER BY s.id
    LIMIT 1), false)
