-- Marks ready and scheduled messages dead, in place.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now}, suspect = 0
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state < 2
RETURNING id
