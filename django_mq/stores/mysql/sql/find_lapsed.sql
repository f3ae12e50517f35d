-- Finds what lapsed sessions hold; also what is held in the name of a session that no longer
-- exists (a claim that committed while its session was being reaped).
-- Locks: nothing. Index: django_mq_message_claimed, whose entries without a session are not read.
-- Returns: ids.
SELECT held.id
FROM django_mq_message held FORCE INDEX (django_mq_message_claimed)
LEFT JOIN django_mq_workersession s ON s.id = held.session_id
WHERE held.session_id > 0 AND held.state = 2 AND (s.id IS NULL OR s.id IN %(sessions)s)
