-- Locks what find_lapsed.sql found, unless somebody has taken it meanwhile.
-- A suspect that killed its worker again keeps its counted attempt.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: the session and the id of each, whether its attempts are exhausted, and whether this one counts.
SELECT held.session_id, held.id, held.suspect AND EXISTS (
    SELECT 1 FROM django_mq_queue q
    WHERE q.id = held.queue_id AND q.max_attempts > 0 AND held.attempts >= q.max_attempts), held.suspect
FROM django_mq_message held
WHERE held.id IN %(ids)s AND held.state = 2 AND (
    held.session_id IN %(sessions)s
    OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
FOR UPDATE SKIP LOCKED
