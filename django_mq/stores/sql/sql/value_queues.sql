-- Finds the last-value queues that some messages stand in.
-- Locks: nothing. Index: the primary key.
-- Returns: their names.
SELECT DISTINCT q.name FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in_ids} AND q.last_value_key <> ''
