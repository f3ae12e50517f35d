-- Leases the locked messages to a session. A suspect's attempt is counted here, at its claim.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now}, attempts = attempts + suspect
WHERE id IN %(ids)s
