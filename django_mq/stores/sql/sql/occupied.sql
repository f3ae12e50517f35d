-- Names the queues that messages are in, whether there are such queues or not.
-- Locks: nothing. Index: the four partial indexes of a queue's states: one entry of each for each queue, as every
-- step asks for the next key behind the last one.
-- Returns: the queues' ids.
WITH RECURSIVE scheduled(id) AS (
    SELECT min(queue_id) FROM django_mq_message WHERE state = 0
    UNION ALL
    SELECT (SELECT min(m.queue_id) FROM django_mq_message m WHERE m.state = 0 AND m.queue_id > scheduled.id)
    FROM scheduled WHERE scheduled.id IS NOT NULL
), ready(id) AS (
    SELECT min(queue_id) FROM django_mq_message WHERE state = 1
    UNION ALL
    SELECT (SELECT min(m.queue_id) FROM django_mq_message m WHERE m.state = 1 AND m.queue_id > ready.id)
    FROM ready WHERE ready.id IS NOT NULL
), claimed(id) AS (
    SELECT min(queue_id) FROM django_mq_message WHERE state = 2
    UNION ALL
    SELECT (SELECT min(m.queue_id) FROM django_mq_message m WHERE m.state = 2 AND m.queue_id > claimed.id)
    FROM claimed WHERE claimed.id IS NOT NULL
), dead(id) AS (
    SELECT min(queue_id) FROM django_mq_message WHERE state = 3
    UNION ALL
    SELECT (SELECT min(m.queue_id) FROM django_mq_message m WHERE m.state = 3 AND m.queue_id > dead.id)
    FROM dead WHERE dead.id IS NOT NULL
)
SELECT id FROM scheduled WHERE id IS NOT NULL
UNION
SELECT id FROM ready WHERE id IS NOT NULL
UNION
SELECT id FROM claimed WHERE id IS NOT NULL
UNION
SELECT id FROM dead WHERE id IS NOT NULL
