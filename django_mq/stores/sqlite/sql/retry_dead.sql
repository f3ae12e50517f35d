-- Makes dead messages ready again, attempts restarting, in their old place.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = 0, suspect = 0, redelivered = 1, dead_reason = '', dead_at = NULL,
    expires_at = NULL, claim = NULL
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state = 3
RETURNING id
