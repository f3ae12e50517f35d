-- Forgets sessions.
-- Locks: the database for writing. Index: the primary key.
-- Returns: nothing.
DELETE FROM django_mq_workersession WHERE id IN (SELECT value FROM json_each(%(sessions)s))
