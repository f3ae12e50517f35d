-- Finds the sessions whose deadline has passed, but for the one in whose name this is asked.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_session_deadline.
-- Returns: id and name.
SELECT id, name FROM django_mq_workersession WHERE deadline < {now} AND id <> %(spare)s ORDER BY id
