-- Gives back, uncounted, whatever a session holds.
-- Locks: the database for writing. Index: django_mq_message_claimed.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect, redelivered = 1,
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE state = 2 AND session_id = %(session)s
RETURNING id
