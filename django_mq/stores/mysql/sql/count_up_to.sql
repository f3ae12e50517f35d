-- Counts a queue's messages, stopping at the limit.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; nothing else is read.
-- Returns: the count.
SELECT count(*) FROM (
    SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
    WHERE m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
    LIMIT %(limit)s
) counted
