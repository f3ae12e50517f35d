-- Forgets sessions; drop_consumers.sql has run.
-- Locks: their rows. Index: the primary key.
-- Returns: one row per session.
DELETE FROM django_mq_workersession WHERE id IN %(sessions)s
