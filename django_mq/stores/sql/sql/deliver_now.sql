-- Makes scheduled messages ready; their due places keep them in due order.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 1, deliver_at = {now}
WHERE id {in_ids} AND state = 0
{returning_id}
