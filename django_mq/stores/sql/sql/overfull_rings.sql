-- Finds the rings that may hold too much, by what is written down of them, and have ready messages to give up.
-- Locks: nothing. Index: django_mq_message_ready, one entry per ring; the queues are read one and all.
-- Neither EXISTS nor IN asks for the entry: the planner may read every ready message for those.
-- Returns: their names, in order.
SELECT ring.name FROM django_mq_queue ring
WHERE {overfull}
AND (
    SELECT m.level FROM django_mq_message m
    WHERE m.queue_id = ring.id AND m.state = 1
    ORDER BY m.level
    LIMIT 1) IS NOT NULL
ORDER BY ring.name
