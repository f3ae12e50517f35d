-- Locks what find_lapsed.sql found, unless somebody has taken it meanwhile.
-- A suspect that killed its worker again keeps its counted attempt.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: the session and the id of each, whether this claim counts, its attempts, and how many its queue allows.
SELECT held.session_id, held.id, held.suspect, held.attempts,
       (SELECT q.max_attempts FROM django_mq_queue q WHERE q.id = held.queue_id)
FROM django_mq_message held
WHERE held.id IN %(ids)s AND held.state = 2 AND (
    held.session_id IN %(sessions)s
    OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
FOR UPDATE SKIP LOCKED
