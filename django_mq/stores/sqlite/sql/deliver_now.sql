-- Makes scheduled messages ready; their due places keep them in due order.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, deliver_at = {now}
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state = 0
RETURNING id
