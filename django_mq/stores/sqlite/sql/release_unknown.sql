-- Gives back, uncounted, what is claimed in a session's name but unknown to it.
-- Locks: the database, as every write. Index: django_mq_message_claimed.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE state = 2 AND session_id = %(session)s AND id NOT IN (SELECT value FROM json_each(%(held)s))
RETURNING id
