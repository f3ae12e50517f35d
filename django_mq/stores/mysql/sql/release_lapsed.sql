-- Gives back, marked suspect, what lock_lapsed.sql locked. The claim token stays: lock_given_back.sql knows by it
-- what nothing has become of since. It is negative where the claim counted an attempt. The columns change
-- from left to right here, so that suspect must come after claim.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET claim = CASE WHEN suspect THEN -claim ELSE claim END,
    state = 1, redelivered = true, suspect = true, session_id = NULL, claimed_at = NULL
WHERE id IN %(ids)s
