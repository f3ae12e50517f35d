-- name: _remembered. Writes the history of unheld messages that have gone, where the queue keeps one.
kept AS (
    {removed_row}
    FROM gone
    JOIN django_mq_queue q ON q.id = gone.queue_id
    WHERE q.history_days > 0
)

-- name: remove. Removes unheld messages, all or those with a reason, and remembers them in the history, where the queue
-- keeps one.
-- Locks: the rows it removes, skipping locked ones. Index: the primary key. Returns: the ids that went.
WITH gone AS (
    DELETE FROM django_mq_message
    WHERE id {among:
        SELECT id FROM django_mq_message
        WHERE id {in:ids} AND state <> 2 AND (%(reason)s::text IS NULL OR dead_reason = %(reason)s)}
    RETURNING *
), {remembered}
SELECT id FROM gone

-- name: _arriving_anew. Takes chosen messages out and puts them in with new numbers; n has their priority.
gone AS (
    DELETE FROM django_mq_message WHERE id IN (SELECT id FROM chosen) RETURNING id
)
{copy_with_priority}
FROM chosen m
JOIN gone ON gone.id = m.id
JOIN django_mq_queue q ON q.id = m.queue_id

-- name: prioritise. Gives ready or scheduled messages another priority: each becomes a new arrival, so that it stands
-- at the tail of its new level. They arrive in their old order. A new row takes its number from the table,
-- which needs no privilege on the sequence.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key. Returns: one row per message.
WITH chosen AS MATERIALIZED (
    SELECT * FROM django_mq_message
    WHERE id = ANY(%(ids)s::bigint[]) AND state < 2 AND priority <> %(priority)s
    FOR UPDATE SKIP LOCKED
), {arriving_anew}
CROSS JOIN (SELECT %(priority)s::int AS priority) n
ORDER BY m.level DESC, m.place, m.id
RETURNING id

-- name: arrive_again. Gives scheduled messages the numbers of new arrivals, in the order in which they are due.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key. Returns: the new ids.
WITH chosen AS MATERIALIZED (
    SELECT * FROM django_mq_message WHERE id = ANY(%(ids)s::bigint[]) AND state = 0 FOR UPDATE SKIP LOCKED
), {arriving_anew}
CROSS JOIN LATERAL (SELECT m.priority) n
ORDER BY m.deliver_at, m.id
RETURNING id

-- name: move. Moves unheld messages to the tail of another queue; attempts restart. A message that is there already
-- stays where it is, and of several copies of one message only the first moves.
-- Locks: the rows it moves, skipping locked ones; the target against deletion above READ COMMITTED. Index: the primary
-- key. Returns: the old and the new id of each.
WITH chosen AS MATERIALIZED (
    SELECT * FROM django_mq_message
    WHERE id = ANY(%(ids)s::bigint[]) AND state <> 2
    FOR UPDATE SKIP LOCKED
), first AS MATERIALIZED (
    SELECT DISTINCT ON (message_id) * FROM chosen ORDER BY message_id, level DESC, place, id
), copied AS (
    {copy_to_tail}
    FROM first n
    JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
    WHERE {read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.name = %(target)s FOR KEY SHARE)
    ORDER BY n.level DESC, n.place, n.id
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING id, message_id
), gone AS (
    DELETE FROM django_mq_message m
    USING first, copied
    WHERE m.id = first.id AND first.message_id = copied.message_id
    RETURNING m.*
), {remembered}
SELECT gone.id, copied.id FROM gone JOIN copied USING (message_id) ORDER BY copied.id

-- name: _headers_without
headers - %(name)s::text

-- name: _headers_with_number
headers || jsonb_build_object(%(name)s::text, %(value)s::int)

-- name: _given_headers
given.headers::jsonb, given.properties::jsonb

-- name: _given_cause
given.cause

-- name: copy_dead. Copies dead messages into a queue, with other headers, properties and reasons; remove follows.
-- Locks: the new rows; the queue against deletion above READ COMMITTED. Index: the primary key. Returns: the message ids
-- of those that were not there yet.
{copy_dead}
FROM unnest(%(ids)s::bigint[], %(headers)s::text[], %(properties)s::text[], %(causes)s::text[])
    AS given(id, headers, properties, cause)
JOIN django_mq_message n ON n.id = ANY(%(ids)s::bigint[]) AND n.id = given.id
JOIN django_mq_queue q ON q.name = %(target)s AND NOT q.closed
WHERE n.dead_at IS NOT NULL {stays:target}
ORDER BY n.id
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING message_id
