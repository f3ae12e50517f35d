-- Opens a worker session, or one again that was reaped, under the given id, as long as no other has that.
-- Locks: the new row.
-- Returns: one row; an error if another session has the id.
INSERT INTO django_mq_workersession (
    id, name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline, conduct, given_credit)
VALUES (%(session)s, %(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s, %(credit)s, 0,
        {now}, {now}, {now} + INTERVAL round(%(deadline_seconds)s * 1000000) MICROSECOND, %(conduct)s, %(given_credit)s)
