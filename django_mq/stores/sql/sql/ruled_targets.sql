-- Finds dead or expired messages that are to go to a queue with rules. To ask for the state would invite the
-- planner to walk the index of the dead.
-- Locks: nothing. Index: the primary key.
-- Returns: id and the queue's name.
SELECT n.id, q.name
FROM django_mq_message n
JOIN django_mq_queue origin ON origin.id = n.queue_id
JOIN django_mq_queue q ON q.id = CASE WHEN %(expired)s THEN origin.expiry_queue_id ELSE origin.dead_letter_queue_id END
WHERE n.id {in_ids} AND n.dead_at IS NOT NULL AND NOT q.closed AND {has_publish_rules}
ORDER BY n.id
