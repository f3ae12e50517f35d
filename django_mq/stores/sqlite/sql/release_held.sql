-- Takes claimed messages away from their sessions and makes them ready.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, redelivered = 1, attempts = attempts - suspect,
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state = 2
RETURNING id
