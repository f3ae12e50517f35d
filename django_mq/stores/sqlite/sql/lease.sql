-- Leases the chosen messages to a session. A suspect's attempt is counted here, at its claim.
-- Locks: the database for writing. Index: the primary key.
-- Returns: nothing.
UPDATE django_mq_message
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now}, attempts = attempts + suspect
WHERE id IN (SELECT value FROM json_each(%(ids)s))
