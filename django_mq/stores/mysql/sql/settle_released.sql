-- Gives messages that lock_held.sql locked back to their places, at once or after a delay.
-- A suspect's attempt was counted when it was claimed: it is taken back when uncounted. The columns
-- change from left to right here, so that suspect must come after attempts.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = CASE WHEN %(delay_seconds)s > 0 THEN 0 ELSE 1 END,
    deliver_at = CASE WHEN %(delay_seconds)s > 0
                      THEN {now} + INTERVAL round(%(delay_seconds)s * 1000000) MICROSECOND ELSE deliver_at END,
    attempts = {counted},
    suspect = suspect AND NOT %(counted)s,
    redelivered = true, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s
