-- Marks expired messages dead whose queue names an expiry queue; move_dead.sql follows.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now}
WHERE id {in_ids} AND state < 2 AND dead_reason <> %(replaced)s
  AND queue_id IN (SELECT q.id FROM django_mq_queue q WHERE q.expiry_queue_id IS NOT NULL)
{returning_id}
