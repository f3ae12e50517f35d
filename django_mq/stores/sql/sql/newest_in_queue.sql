-- Reads the highest message id of one queue.
-- Locks: nothing. Index: the four partial indexes of a queue's states.
-- The sum keeps the primary key from being walked back through other queues' messages.
-- Returns: the id, null if the queue is empty.
SELECT max(id) FROM (
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 0 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 1 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 2 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 3 AND queue_id = %(queue_id)s
) newest
