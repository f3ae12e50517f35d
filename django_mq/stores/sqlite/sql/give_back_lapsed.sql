-- Gives back what release_lapsed.sql found. The claim token stays: retake.sql knows by it what nothing has
-- become of since. It is negative where the claim counted an attempt.
-- Locks: the database for writing. Index: django_mq_message_claimed.
-- Returns: nothing.
UPDATE django_mq_message
SET state = 1, redelivered = 1, suspect = 1, session_id = NULL, claimed_at = NULL,
    claim = CASE WHEN suspect THEN -claim ELSE claim END
WHERE state = 2 AND (
    session_id IN (SELECT value FROM json_each(%(sessions)s))
    OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = session_id))
