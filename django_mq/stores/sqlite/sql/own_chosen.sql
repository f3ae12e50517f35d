-- Gives a session what becomes its own with messages: a slot in the queue of some, the groups of others.
-- Locks: the database for writing. Index: the primary key.
-- Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT DISTINCT m.queue_id, CASE WHEN json_extract(given.value, '$[1]') THEN m.group_key END, %(session)s
FROM json_each(%(owned)s) given
CROSS JOIN django_mq_message m ON m.id = json_extract(given.value, '$[0]')
