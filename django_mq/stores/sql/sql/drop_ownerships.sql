-- Frees what belongs to sessions: their groups and seats.
-- Locks: the rows it deletes. Index: django_mq_ownership_session.
-- Returns: nothing that is used.
DELETE FROM django_mq_ownership WHERE session_id {in_sessions}
