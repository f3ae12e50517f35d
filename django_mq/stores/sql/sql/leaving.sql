-- Finds the messages among some that a later value has replaced, or whose queue names an expiry queue.
-- Locks: nothing. Index: the primary key.
-- Returns: ids, and whether a later value has replaced the message.
SELECT m.id, m.dead_reason = %(replaced)s FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in_ids} AND (m.dead_reason = %(replaced)s OR q.expiry_queue_id IS NOT NULL)
