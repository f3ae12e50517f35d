-- Finds the first ready messages of one level of a ring, but not the newcomer.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_ready.
-- Returns: id and bytes of the body.
SELECT id, octet_length(body) FROM django_mq_message FORCE INDEX (django_mq_message_ready)
WHERE queue_id = %(queue_id)s AND state = 1 AND level = %(level)s AND id <> %(spared)s
ORDER BY place, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
