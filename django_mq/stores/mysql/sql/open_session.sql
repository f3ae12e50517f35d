-- Opens a worker session.
-- Locks: the new row.
-- Returns: its id.
INSERT INTO django_mq_workersession (
    name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline)
VALUES (%(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s, %(credit)s, 0,
        {now}, {now}, {now} + INTERVAL round(%(deadline_seconds)s * 1000000) MICROSECOND)
