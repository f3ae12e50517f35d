-- Opens a worker session.
-- Locks: the new row.
-- Returns: its id.
INSERT INTO django_mq_workersession (
    name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline)
VALUES (%(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s::jsonb, %(credit)s, 0,
        {now}, {now}, {now} + %(deadline_seconds)s * interval '1 second')
RETURNING id
