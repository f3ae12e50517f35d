-- Opens a worker session.
-- Locks: the database for writing.
-- Returns: its id.
INSERT INTO django_mq_workersession (
    name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline)
VALUES (%(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s, %(credit)s, 0,
        {now}, {now}, %(deadline_seconds_from_now)s)
RETURNING id
