-- name: fair_level. Reads the counters of some keys and of their level, locks the first of each that no other publisher has
-- locked, and reads the first ready messages at or behind the greatest present place that was seen.
-- Locks: a counter of each key, waiting for nothing; none if a lock could fail. Index: django_mq_fair_key and
-- django_mq_message_ready. Returns: what it returns elsewhere; and 2, key, id, and finish and seen as they are now, of each
-- locked counter.
{fair_level}
UNION ALL
SELECT 2, own.fair_key, own.id, own.finish, own.seen, NULL
FROM unnest(%(keys)s::text[]) AS given(fair_key)
CROSS JOIN LATERAL (
    SELECT c.fair_key, c.id, c.finish, c.seen FROM django_mq_faircounter c
    WHERE c.queue_id = %(queue_id)s AND c.level = %(level)s AND c.fair_key = given.fair_key AND {sees_commits}
    ORDER BY c.id LIMIT 1 {skip_locked}
) own

-- name: set_counters. Writes how far keys have come. The second condition lets the planner expect few rows.
-- Locks: the rows it changes, which fair_level has locked. Index: the primary key. Returns: nothing that is used.
UPDATE django_mq_faircounter AS c SET finish = given.finish, seen = given.seen FROM {given_counters}
WHERE c.id = given.id
    AND c.id = ANY(ARRAY(SELECT (each ->> 'id')::bigint FROM jsonb_array_elements(%(counters)s::jsonb) AS each))

-- name: _own_counter. The first counter of a key that no other publisher has locked.
SELECT 2, own.fair_key, own.id, own.finish, own.seen, NULL
FROM (
    SELECT c.fair_key, c.id, c.finish, c.seen FROM django_mq_faircounter c
    WHERE c.queue_id = %(queue_id)s AND c.level = %(level)s AND c.fair_key = {it} AND {sees_commits}
    ORDER BY c.id LIMIT 1 {skip_locked}
) own

-- name: fair_level_of. Does what fair_level does, for one key and its level: a plan that fits any number of keys is not
-- kept.
-- Locks: as fair_level. Index: as fair_level. Returns: as fair_level.
{fair_level_at:IN (%(key)s, '')}
UNION ALL
{own_counter:%(key)s}
UNION ALL
{own_counter:''}

-- name: append_fair. Writes one message at its place, as append_at_once does, and how far its key and the level have come
-- with it, in counters that fair_level_of has locked.
-- Locks: the new row. Index: the unique name of django_mq_queue, the primary key of django_mq_faircounter. Returns: the id;
-- no row above READ COMMITTED, when the queue is unknown or closed, or the message id is taken.
WITH written AS (
    INSERT INTO django_mq_message (
        {ready_columns})
    SELECT
        {ready_values}
    FROM django_mq_queue q
    WHERE q.name = %(queue_name)s AND NOT q.closed AND {read_committed}
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING id
), counted AS (
    UPDATE django_mq_faircounter c
    SET finish = CASE c.id WHEN %(key_id)s THEN %(key_finish)s ELSE %(level_finish)s::bigint END,
        seen = CASE c.id WHEN %(key_id)s THEN c.seen ELSE %(level_seen)s END
    FROM written
    WHERE c.id IN (%(key_id)s, %(level_id)s)
)
SELECT id FROM written
