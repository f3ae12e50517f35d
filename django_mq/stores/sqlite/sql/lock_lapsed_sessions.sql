-- Finds the sessions whose deadline has passed.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_session_deadline.
-- Returns: id and name.
SELECT id, name FROM django_mq_workersession WHERE deadline < {now} ORDER BY id
