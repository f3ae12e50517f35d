-- Finds the messages among some whose queue names an expiry queue, but for values that a later one has replaced.
-- Locks: nothing. Index: the primary key.
-- Returns: ids.
SELECT m.id FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in_ids} AND m.dead_reason <> 'replaced' AND q.expiry_queue_id IS NOT NULL
