-- Marks messages dead, in place, that lock_held.sql locked.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now},
    attempts = {counted},
    suspect = false, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s
