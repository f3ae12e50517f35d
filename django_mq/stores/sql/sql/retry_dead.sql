-- Makes dead messages ready again, attempts restarting, in their old place.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = 0, suspect = false, redelivered = true, dead_reason = '', dead_at = NULL,
    expires_at = NULL, claim = NULL
WHERE id {in_ids} AND state = 3
{returning_id}
