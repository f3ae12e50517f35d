-- Gives back what lapsed sessions held, marked suspect; also what is held in the name of a session
-- that no longer exists (a claim that committed while its session was being reaped).
-- A suspect that killed its worker again keeps its counted attempt.
-- The claim token stays: retake.sql knows by it what nothing has become of since. It is negative where the
-- claim counted an attempt.
-- No join: a row that somebody else has claimed since this statement began is looked at again before it is
-- locked, and an outer join would then find no session for it.
-- Locks: the rows it changes, skipping locked ones. Index: django_mq_message_claimed.
-- Returns: the session and the id of each, whether this claim counts, its attempts, and how many its queue allows.
UPDATE django_mq_message m
SET state = 1, redelivered = true, suspect = true, session_id = NULL, claimed_at = NULL,
    claim = CASE WHEN m.suspect THEN -m.claim ELSE m.claim END
FROM (
    SELECT held.id, held.session_id, held.suspect
    FROM django_mq_message held
    WHERE held.state = 2 AND (
        held.session_id = ANY(%(sessions)s::bigint[])
        OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
    FOR UPDATE SKIP LOCKED
) held, django_mq_queue q
WHERE m.id = held.id AND q.id = m.queue_id
RETURNING held.session_id, m.id, held.suspect, m.attempts, q.max_attempts
