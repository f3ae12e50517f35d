-- Finds what a session holds of messages that a later value has replaced.
-- Locks: nothing. Index: django_mq_message_claimed.
-- Returns: ids.
SELECT h.id FROM django_mq_message h {by_session}
WHERE h.session_id = %(session)s AND h.state = 2 AND h.dead_reason = %(replaced)s
