-- Gives ready or scheduled messages another priority: each becomes a new arrival, so that it
-- stands at the tail of its new level.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message AS m
SET id = {tail} + moving.rank, priority = moving.priority, level = moving.level, place = moving.place
FROM (
    SELECT
        n.id, n.priority, {level} AS level, CASE WHEN n.state = 0 THEN n.place ELSE 0 END AS place,
        row_number() OVER (ORDER BY n.old_level DESC, n.place, n.id) AS rank
    FROM (
        SELECT id, queue_id, state, place, level AS old_level, %(priority)s AS priority
        FROM django_mq_message
        WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state < 2 AND priority <> %(priority)s
    ) n
    JOIN django_mq_queue q ON q.id = n.queue_id
) moving
WHERE m.id = moving.id
RETURNING id
