-- Asks whether a session still exists.
-- Locks: nothing. Index: the primary key.
-- Returns: one row if it does.
SELECT 1 FROM django_mq_workersession WHERE id = %(session)s
