-- Opens a worker session, or one again that was reaped, under the given id, as long as no other has that.
-- Locks: the database for writing.
-- Returns: its id; nothing if another session has it.
INSERT INTO django_mq_workersession (
    id, name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline, conduct, given_credit)
VALUES (%(session)s, %(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s, %(credit)s, 0,
        {now}, {now}, %(deadline_seconds_from_now)s, %(conduct)s, %(given_credit)s)
ON CONFLICT (id) DO NOTHING
RETURNING id
