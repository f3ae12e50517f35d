-- Names the queues that messages are in, whether there are such queues or not.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; all of its entries may be read, and no
-- row. (A recursion from queue to queue, as elsewhere, ends here after a thousand steps.)
-- Returns: the queues' ids.
SELECT queue_id FROM django_mq_message FORCE INDEX (django_mq_message_ready) GROUP BY queue_id
