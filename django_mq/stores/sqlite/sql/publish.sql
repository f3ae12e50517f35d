-- name: _level. The same as level_of() in django_mq/engine/decisions/places.py.
CASE WHEN q.kind = 'fifo' THEN 0 ELSE max(0, min(q.levels - 1, {it} - (5 - (q.levels + 1) / 2))) END
-- name: _due_place
CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE {microseconds:n.deliver_at} - 4611686018427387904 END
-- name: _end
coalesce(%(expires_at)s, %(ttl_seconds_from_now)s, {queue_expiry})
-- name: _bounded
max({end}, coalesce({after:q.min_ttl_seconds}, {end}))
-- name: _expiry
CASE WHEN NOT q.no_expiry THEN min({bounded}, coalesce({after:q.max_ttl_seconds}, {bounded})) END
-- name: _stays. The write lock keeps the queue from being deleted.

-- name: append_at_once. Writes one message that is ready at once and has no time to live: what append does, with
-- half of its parameters and none of its reckoning with times.
-- Locks: the database for writing. Index: the unique name of django_mq_queue. Returns: the id; no row when the queue is
-- unknown or closed, or the message id is taken.
INSERT INTO django_mq_message (
    {ready_columns})
SELECT
    q.id, {unasked}, 1, {level:n.priority}, {ready_place}, n.priority, 0, 0, 0, %(message_id)s, %(type)s,
    %(correlation_id)s, %(group_key)s, {now}, {queue_expiry}, '',
    %(content_type)s, %(content_encoding)s, %(headers)s, %(properties)s, %(told_to)s, %(body)s
FROM django_mq_queue q
CROSS JOIN (SELECT %(priority)s AS priority) n
WHERE q.name = %(queue_name)s AND NOT q.closed
ON CONFLICT (message_id, queue_id) DO NOTHING
RETURNING id

-- name: append_many. Writes one of many messages, as append does; run again for each.
-- Locks: the database for writing. Index: the unique name of django_mq_queue. Returns: nothing, because the driver runs
-- only what answers nothing again by itself.
{write}

-- name: last_id. Tells under which id this connection has written its last row; ids are given one after the other.
-- Locks: nothing. Index: none. Returns: the id.
SELECT last_insert_rowid()

-- name: mark_tail. Remembers the highest id in use after rows were given new ones: no id may come twice.
-- Locks: the database for writing. Index: the primary key. Returns: nothing.
UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(id), 0) FROM django_mq_message))
WHERE name = 'django_mq_message'

-- name: set_places. Writes the places of messages in sorted and fair queues.
-- Locks: the database for writing. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET place = given.place
FROM (
    SELECT json_extract(value, '$.ids') AS id, json_extract(value, '$.places') AS place FROM json_each(%(given)s)
) given
WHERE django_mq_message.id = given.id
RETURNING id
