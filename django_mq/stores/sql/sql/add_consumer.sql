-- Shows one consumer of a session.
-- Locks: the new row.
-- Returns: nothing.
INSERT INTO django_mq_consumer (
    session_id, queue_name, handler, priority, state, credit_limit, credit_used, delivered)
VALUES (%(session)s, %(queue_name)s, %(handler)s, %(priority)s, %(state)s, %(credit_limit)s,
        %(credit_used)s, %(delivered)s)
