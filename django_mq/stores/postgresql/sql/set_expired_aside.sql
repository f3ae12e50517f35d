-- Marks expired messages dead whose queue names an expiry queue; move_dead.sql follows.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now}
WHERE id = ANY(ARRAY(
    SELECT m.id FROM django_mq_message m
    JOIN django_mq_queue q ON q.id = m.queue_id
    WHERE m.id = ANY(%(ids)s::bigint[]) AND m.state < 2 AND m.dead_reason <> %(replaced)s AND q.expiry_queue_id IS NOT NULL
    FOR UPDATE OF m SKIP LOCKED))
RETURNING id
