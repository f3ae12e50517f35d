-- Gives back, marked suspect, what lock_lapsed.sql locked.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, redelivered = true, suspect = true, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s
