-- Gives a session back what lock_given_back.sql locked. The columns change from left to right here.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET suspect = CASE WHEN session_id IS NULL THEN claim < 0 ELSE suspect END, claim = abs(claim),
    session_id = %(session)s,
    dead_reason = CASE WHEN state = 3 THEN '' ELSE dead_reason END, dead_at = NULL, state = 2
WHERE id IN %(ids)s
