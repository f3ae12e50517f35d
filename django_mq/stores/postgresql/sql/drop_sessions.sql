-- Forgets sessions.
-- Locks: their rows. Index: the primary key.
-- Returns: nothing.
DELETE FROM django_mq_workersession WHERE id = ANY(%(sessions)s::bigint[])
