-- name: _headers_without. Headers that are no JSON stay as they are.
CASE WHEN json_valid(headers) THEN json_remove(headers, '$."' || %(name)s || '"') ELSE headers END

-- name: _headers_with_number. Headers that are no JSON stay as they are.
CASE WHEN json_valid(headers) THEN json_set(headers, '$."' || %(name)s || '"', %(value)s) ELSE headers END

-- name: remove. Removes unheld messages, all or those with a reason; remember_removed has run.
-- Locks: the database for writing. Index: the primary key. Returns: the ids that went.
DELETE FROM django_mq_message
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state <> 2 AND (%(reason)s IS NULL OR dead_reason = %(reason)s)
RETURNING id

-- name: prioritise. Gives ready or scheduled messages another priority: each becomes a new arrival, so that it stands
-- at the tail of its new level.
-- Locks: the database for writing. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message AS m
SET id = {tail:message} + moving.rank, priority = moving.priority, level = moving.level, place = moving.place, meets = moving.meets
FROM (
    SELECT
        n.id, n.priority, {level:n.priority} AS level, CASE WHEN n.state = 0 OR q.sort_key <> '' THEN n.place ELSE 0 END AS place,
        {unasked} AS meets,
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

-- name: arrive_again. Gives scheduled messages the numbers of new arrivals, in the order in which they are due.
-- Locks: the database for writing. Index: the primary key. Returns: the new ids.
UPDATE django_mq_message AS m
SET id = {tail:message} + due.rank
FROM (
    SELECT id, row_number() OVER (ORDER BY deliver_at, id) AS rank
    FROM django_mq_message
    WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state = 0
) due
WHERE m.id = due.id
RETURNING id

-- name: move. Moves unheld messages to the tail of another queue; attempts restart. A message that is there already
-- stays where it is.
-- Locks: the database for writing. Index: the primary key. Returns: one row per message.
UPDATE OR IGNORE django_mq_message AS m
SET id = {tail:message} + moving.rank, queue_id = moving.target_id, meets = moving.meets, value_key = NULL, state = moving.state, level = moving.level,
    place = moving.place, attempts = 0, redelivered = moving.redelivered, suspect = 0, deliver_at = moving.deliver_at, released_at = {now},
    expires_at = CASE WHEN NOT moving.no_expiry THEN m.expires_at END, dead_reason = '', dead_at = NULL, claim = NULL, park_key = NULL,
    parked_until = NULL
FROM (
    SELECT
        n.id, q.id AS target_id, {unasked} AS meets, q.no_expiry, min(n.state, 1) AS state, {delivered_before} AS redelivered, {level:n.priority} AS level,
        CASE WHEN n.state = 0 THEN {place} ELSE 0 END AS place,
        CASE WHEN n.state = 0 THEN n.deliver_at END AS deliver_at,
        row_number() OVER (ORDER BY n.level DESC, n.place, n.id) AS rank
    FROM django_mq_message n
    JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
    WHERE n.id IN (SELECT value FROM json_each(%(ids)s)) AND n.state <> 2
) moving
WHERE m.id = moving.id
RETURNING id

-- name: _given_headers
json_extract(given.value, '$.headers'), json_extract(given.value, '$.properties')

-- name: _given_cause
json_extract(given.value, '$.causes')

-- name: copy_dead. Copies dead messages into a queue, with other headers, properties and reasons; remove follows.
-- Locks: the database for writing. Index: the primary key. Returns: the message ids of those that were not there yet.
{copy_dead}
FROM json_each(%(given)s) given
CROSS JOIN django_mq_message n ON n.id = json_extract(given.value, '$.ids')
JOIN django_mq_queue q ON q.name = %(target)s AND NOT q.closed
WHERE n.dead_at IS NOT NULL
ORDER BY n.id
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING message_id
