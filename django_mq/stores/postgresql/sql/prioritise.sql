-- Gives ready or scheduled messages another priority: each becomes a new arrival, so that it
-- stands at the tail of its new level. Their old order decides who arrives first.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key.
-- Returns: one row per message.
WITH chosen AS MATERIALIZED (
    SELECT id, queue_id, state, nextval(pg_get_serial_sequence('django_mq_message', 'id')) AS new_id
    FROM (
        SELECT id, queue_id, state FROM django_mq_message
        WHERE id = ANY(%(ids)s::bigint[]) AND state < 2 AND priority <> %(priority)s
        ORDER BY level DESC, place, id
        FOR UPDATE SKIP LOCKED
    ) ordered
)
UPDATE django_mq_message m
SET id = chosen.new_id, priority = n.priority, level = {level},
    place = CASE WHEN chosen.state = 0 THEN m.place ELSE 0 END
FROM chosen
JOIN django_mq_queue q ON q.id = chosen.queue_id
CROSS JOIN (SELECT %(priority)s::int AS priority) n
WHERE m.id = chosen.id
RETURNING m.id
