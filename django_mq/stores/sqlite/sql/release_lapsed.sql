-- Finds what lapsed sessions held; also what is held in the name of a session that no longer
-- exists. give_back_lapsed.sql marks it suspect and ready.
-- A suspect that killed its worker again keeps its counted attempt.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_claimed.
-- Returns: the session and the id of each, whether this claim counts, its attempts, and how many its queue allows.
SELECT held.session_id, held.id, held.suspect, held.attempts, q.max_attempts
FROM django_mq_message held
JOIN django_mq_queue q ON q.id = held.queue_id
LEFT JOIN django_mq_workersession s ON s.id = held.session_id
WHERE held.state = 2 AND (s.id IS NULL OR s.id IN (SELECT value FROM json_each(%(sessions)s)))
