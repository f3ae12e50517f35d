-- Forgets sessions; drop_consumers.sql has run.
-- Locks: their rows. Index: the primary key.
-- Returns: nothing that is used.
DELETE FROM django_mq_workersession WHERE id {in_sessions}
