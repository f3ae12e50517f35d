-- Frees what belongs to sessions: their groups and seats.
-- Locks: the database for writing. Index: django_mq_ownership_session.
-- Returns: nothing that is used.
DELETE FROM django_mq_ownership WHERE session_id IN (SELECT value FROM json_each(%(sessions)s))
