-- name: release_held_by_expired. Finds what expired sessions held; also what is held in the name of a session that no longer
-- exists. give_back_held_by_expired marks it suspect and ready. A suspect that killed its worker again keeps its counted
-- attempt.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_claimed. Returns: the session and the id
-- of each, whether this claim counts, its attempts, how many its queue allows, and the claim.
SELECT held.session_id, held.id, held.suspect, held.attempts, q.max_attempts, held.claim
FROM django_mq_message held
JOIN django_mq_queue q ON q.id = held.queue_id
LEFT JOIN django_mq_workersession s ON s.id = held.session_id
WHERE held.state = 2 AND (s.id IS NULL OR s.id IN (SELECT value FROM json_each(%(sessions)s)))

-- name: give_back_held_by_expired. Gives back what release_held_by_expired found. The claim token stays: retake knows by it what nothing
-- has become of since. It is negative where the claim counted an attempt.
-- Locks: the database for writing. Index: django_mq_message_claimed. Returns: nothing.
UPDATE django_mq_message
SET state = 1, redelivered = 1, released_at = {now}, suspect = 1, session_id = NULL, claimed_at = NULL,
    claim = CASE WHEN suspect THEN -claim ELSE claim END
WHERE state = 2 AND (
    session_id IN (SELECT value FROM json_each(%(sessions)s))
    OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = session_id))
