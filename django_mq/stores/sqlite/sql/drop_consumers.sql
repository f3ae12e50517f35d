-- Forgets the consumers of a session.
-- Locks: the database for writing. Index: the foreign key to the session.
-- Returns: nothing.
DELETE FROM django_mq_consumer WHERE session_id IN (SELECT value FROM json_each(%(sessions)s))
