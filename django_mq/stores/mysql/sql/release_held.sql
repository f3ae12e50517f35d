-- Takes claimed messages away from their sessions and makes them ready.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, redelivered = true, attempts = attempts - suspect,
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s AND state = 2
