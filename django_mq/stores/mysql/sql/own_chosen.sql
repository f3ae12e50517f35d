-- Gives a session what becomes its own with messages: a slot in the queue of some, the groups of others.
-- Locks: the new rows. Index: the primary key.
-- Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT DISTINCT m.queue_id, CASE WHEN given.by_group THEN m.group_key END, %(session)s
FROM json_table(%(owned)s, '$[*]' COLUMNS (id bigint PATH '$[0]', by_group boolean PATH '$[1]')) given
JOIN django_mq_message m ON m.id = given.id
