-- Gives back, uncounted, whatever a session holds.
-- Locks: the rows it changes. Index: django_mq_message_claimed.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect, redelivered = true,
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE session_id = %(session)s AND state = 2
