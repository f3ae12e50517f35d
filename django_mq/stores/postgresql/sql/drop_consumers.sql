-- Forgets the consumers of a session.
-- Locks: their rows. Index: the foreign key to the session.
-- Returns: nothing.
DELETE FROM django_mq_consumer WHERE session_id = ANY(%(sessions)s::bigint[])
