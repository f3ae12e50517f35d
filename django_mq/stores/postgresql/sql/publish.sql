-- name: _level. The same as level_of() in django_mq/engine/decisions/places.py.
CASE WHEN q.kind = 'fifo' THEN 0 ELSE greatest(0, least(q.levels - 1, {it} - (5 - (q.levels + 1) / 2))) END
-- name: _due_place
CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE (extract(epoch FROM n.deliver_at) * 1000000)::bigint - 4611686018427387904 END
-- name: _end
coalesce(n.expires_at, {after:coalesce(n.ttl_seconds, q.ttl_seconds)})
-- name: _expiry
CASE WHEN NOT q.no_expiry THEN
        least(CASE WHEN {end} IS NOT NULL THEN greatest({end}, {after:q.min_ttl_seconds}) END, {after:q.max_ttl_seconds}) END
-- name: _stays. Whether the queue is there still: above READ COMMITTED it is locked against deletion.
AND ({read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.id = q.id FOR KEY SHARE))

-- name: _ready_values. The values of ready_columns.
q.id, {unasked}, 1, {level:%(priority)s}, {ready_place}, %(priority)s, 0, false, false,
    %(message_id)s, %(type)s, %(correlation_id)s, %(group_key)s, {now}, {queue_expiry},
    '', %(content_type)s, %(content_encoding)s, %(headers)s::jsonb, %(properties)s::jsonb, %(told_to)s, %(body)s

-- name: _given_places. As given_place, of many messages.
-- name: _given_places_placed
, %(place)s::bigint[]
-- name: _place_of_each. The name of given_places.
-- name: _place_of_each_placed
, place

-- name: append_at_once. Writes one message that is ready at once and has no time to live: what append does, in an
-- expression or two per column. Nothing is prepared on the caller's connection, which may lead through a pooler, so
-- each publish plans this anew: joining the message's values as append does would take longer than all the rest. So
-- would the lock that append takes above READ COMMITTED: there this writes nothing, and append is run.
-- Locks: nothing but the new row. Index: the unique name of django_mq_queue. Returns: the id; no row above READ
-- COMMITTED, when the queue is unknown or closed, or the message id is taken.
INSERT INTO django_mq_message (
    {ready_columns})
SELECT
    {ready_values}
FROM django_mq_queue q
WHERE q.name = %(queue_name)s AND NOT q.closed AND {read_committed}
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id

-- name: append_many. Writes many messages in the order of the arrays.
-- Locks: nothing but the new rows; the queues against deletion above READ COMMITTED. Index: the unique name of
-- django_mq_queue. Returns: the ids in order; fewer than asked when a queue is unknown or closed, or an id is taken.
{write_many}, n.body
FROM (
    SELECT u.*, coalesce(u.given_at, {after:u.delay_seconds}) AS deliver_at
    FROM unnest(
        %(queue_name)s::text[], %(message_id)s::uuid[], %(body)s::bytea[], %(content_type)s::text[],
        %(content_encoding)s::text[], %(headers)s::text[], %(properties)s::text[], %(priority)s::int[],
        %(type)s::text[], %(correlation_id)s::text[], %(group_key)s::text[],
        %(deliver_at)s::timestamptz[], %(delay_seconds)s::float8[],
        %(expires_at)s::timestamptz[], %(ttl_seconds)s::float8[], %(told_to)s::text[]{given_places}
    ) WITH ORDINALITY AS u(
        queue_name, message_id, body, content_type, content_encoding, headers, properties, priority,
        type, correlation_id, group_key, given_at, delay_seconds, expires_at, ttl_seconds, told_to{place_of_each}, ordinal)
) n
JOIN django_mq_queue q ON q.name = n.queue_name AND NOT q.closed
WHERE {read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.name = n.queue_name FOR KEY SHARE)
ORDER BY n.ordinal
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id

-- name: copy_targets. Reads the values that copied messages get from their queues and the database, as COPY has no
-- expressions: the time in microseconds since 2000, the options that decide places and times, and row ids. Nothing is
-- written. But a statement locks the table that it writes into before it reads the first row: a queue found here
-- cannot be deleted before its messages are committed.
-- Locks: the message table as any write does, against lock_messages alone; the queues against deletion above READ
-- COMMITTED. Index: the unique name of django_mq_queue. Returns: a row for each of the queues that is known and open;
-- the ids are the same in all of them, and null where the role may not use the sequence. An INSERT that leaves the id
-- out needs no privilege on it.
WITH nothing AS (
    INSERT INTO django_mq_message SELECT m.* FROM django_mq_message m WHERE false
)
SELECT
    q.name, q.id, (extract(epoch FROM {now}) * 1000000)::bigint - 946684800000000,
    q.kind, q.levels, q.due_order, q.min_ttl_seconds, q.max_ttl_seconds, q.ttl_seconds, q.no_expiry,
    q.declared IS NOT NULL,
    CASE WHEN has_sequence_privilege(pg_get_serial_sequence('django_mq_message', 'id'), 'USAGE')
         THEN ARRAY(SELECT nextval((SELECT pg_get_serial_sequence('django_mq_message', 'id')::regclass))
                    FROM generate_series(1, %(amount)s::int)) END
FROM django_mq_queue q
WHERE q.name {in_texts:names} AND NOT q.closed {stays}

-- name: _copied
COPY django_mq_message (
    queue_id, published_at, level, priority, attempts, redelivered, suspect, dead_reason,
    type, correlation_id, group_key, content_type, content_encoding, told_to, headers, properties,
    meets, state, place, deliver_at, expires_at, {it} message_id, body)
FROM STDIN (FORMAT BINARY)

-- name: copy_messages. Writes many messages in PostgreSQL's binary format; copying.py makes the rows, with their
-- states and places.
-- Locks: nothing but the new rows. A message id that is taken is an error, a unique violation. Returns: nothing.
{copied:id,}

-- name: copy_alike. Writes messages as copy_messages does; the table gives their row ids.
-- Locks: nothing but the new rows. A message id that is taken is an error, a unique violation. Returns: nothing.
{copied:}

-- name: set_places. Writes the places of messages in sorted and fair queues.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message AS m SET place = given.place
FROM unnest(%(ids)s::bigint[], %(places)s::bigint[]) AS given(id, place)
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.id = given.id
RETURNING m.id
