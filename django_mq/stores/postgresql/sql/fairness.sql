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
