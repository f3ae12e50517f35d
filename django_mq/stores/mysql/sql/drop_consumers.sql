-- Forgets the consumers of sessions.
-- Locks: their rows. Index: the foreign key to the session.
-- Returns: one row per consumer.
DELETE FROM django_mq_consumer WHERE session_id IN %(sessions)s
