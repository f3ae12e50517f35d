-- Marks expired messages dead whose queue names an expiry queue; move_dead.sql follows.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = 'expired', dead_at = {now}
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state < 2 AND dead_reason <> 'replaced'
  AND queue_id IN (SELECT id FROM django_mq_queue WHERE expiry_queue_id IS NOT NULL)
RETURNING id
