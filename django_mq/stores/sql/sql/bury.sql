-- Marks ready and scheduled messages dead, in place.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now}, suspect = false
WHERE id {in_ids} AND state < 2
{returning_id}
