-- Gives back, uncounted, what is claimed in a session's name but unknown to it.
-- Locks: the rows it changes. Index: django_mq_message_claimed.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE session_id = %(session)s AND state = 2 AND (id NOT IN %(held)s) IS NOT FALSE
