-- Finds what a session holds of messages that a later value has replaced.
-- Locks: nothing. Index: django_mq_message_claimed.
-- Returns: ids.
SELECT id FROM django_mq_message WHERE session_id = %(session)s AND state = 2 AND dead_reason = 'replaced'
