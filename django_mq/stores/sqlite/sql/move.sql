-- Moves unheld messages to the tail of another queue; attempts restart. A message that is there
-- already stays where it is.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE OR IGNORE django_mq_message AS m
SET id = {tail} + moving.rank, queue_id = moving.target_id, value_key = NULL, state = moving.state, level = moving.level,
    place = moving.place, attempts = 0, suspect = 0, deliver_at = moving.deliver_at, dead_reason = '', dead_at = NULL,
    claim = NULL
FROM (
    SELECT
        n.id, q.id AS target_id, min(n.state, 1) AS state, {level} AS level,
        CASE WHEN n.state = 0 THEN {place} ELSE 0 END AS place,
        CASE WHEN n.state = 0 THEN n.deliver_at END AS deliver_at,
        row_number() OVER (ORDER BY n.level DESC, n.place, n.id) AS rank
    FROM django_mq_message n
    JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
    WHERE n.id IN (SELECT value FROM json_each(%(ids)s)) AND n.state <> 2
) moving
WHERE m.id = moving.id
RETURNING id
