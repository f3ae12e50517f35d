-- Reads the highest message id of one queue.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; nothing else is read.
-- The sum keeps the primary key from being walked back through other queues' messages.
-- Returns: the id, null if the queue is empty.
SELECT max(id + 0) FROM django_mq_message FORCE INDEX (django_mq_message_ready)
WHERE queue_id = %(queue_id)s
