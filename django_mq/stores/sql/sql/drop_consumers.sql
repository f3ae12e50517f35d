-- Forgets the consumers of sessions.
-- Locks: their rows. Index: the foreign key to the session.
-- Returns: nothing that is used.
DELETE FROM django_mq_consumer WHERE session_id {in_sessions}
