-- Counts a queue's messages and the bytes of their bodies: all of them, so it is asked for rarely.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue.
-- Returns: messages and bytes.
SELECT count(*), coalesce(sum(octet_length(body)), 0)
FROM django_mq_message FORCE INDEX (django_mq_message_ready)
WHERE queue_id = %(queue_id)s
