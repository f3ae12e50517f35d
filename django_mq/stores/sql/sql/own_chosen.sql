-- Gives a session what becomes its own with messages: their groups, or a slot in their queues.
-- Locks: the new rows. Index: the primary key.
-- Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT DISTINCT m.queue_id, CASE WHEN %(by_group)s THEN m.group_key END, %(session)s
FROM django_mq_message m
WHERE m.id {in_ids}
