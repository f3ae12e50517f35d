-- Finds the lowest level, from a given one on, at which a queue has ready messages.
-- Locks: nothing. Index: django_mq_message_ready, from its end.
-- Returns: the level; no row if there is none.
SELECT level FROM django_mq_message
WHERE queue_id = %(queue_id)s AND state = 1 AND level >= %(level)s
ORDER BY level
LIMIT 1
