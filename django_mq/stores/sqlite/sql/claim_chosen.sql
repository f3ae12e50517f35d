-- Reads those of the chosen messages that are still ready; lease.sql takes them.
-- Locks: nothing; runs inside the write transaction. Index: the primary key.
-- Returns: the messages, in no order.
SELECT {claimed_columns}
FROM (
    SELECT c.id, q.name AS queue_name
    FROM django_mq_message c
    JOIN django_mq_queue q ON q.id = c.queue_id
    WHERE c.id IN (SELECT value FROM json_each(%(ids)s)) AND c.state = 1
) chosen
JOIN django_mq_message m ON m.id = chosen.id
