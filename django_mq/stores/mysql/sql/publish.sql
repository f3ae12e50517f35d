-- name: _level. The same as level_of() in django_mq/engine/decisions/places.py.
CASE WHEN q.kind = 'fifo' THEN 0
     ELSE greatest(0, least(q.levels - 1,
         CAST({it} AS SIGNED) - (5 - (CAST(q.levels AS SIGNED) + 1) DIV 2))) END

-- name: _due_place
CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE timestampdiff(MICROSECOND, '1970-01-01', n.deliver_at) - 4611686018427387904 END
-- name: _end
coalesce(n.expires_at, {now} + INTERVAL round(coalesce(n.ttl_seconds, least(q.ttl_seconds, 2e11)) * 1000000) MICROSECOND)
-- name: _bounded
greatest({end}, coalesce({after:q.min_ttl_seconds}, {end}))
-- name: _expiry
CASE WHEN NOT q.no_expiry THEN
        coalesce(least({bounded}, coalesce({after:q.max_ttl_seconds}, {bounded})), {after:q.max_ttl_seconds}) END
-- name: _stays. Holds for sharing the queue's entry in the index of names, which only the deletion of the queue
-- wants for itself: to pause it takes the row alone.
AND q.id = (SELECT held.id FROM django_mq_queue held WHERE held.name = %({it})s LOCK IN SHARE MODE)

-- name: _place_of_each. Nothing, unless messages come with their places.
-- name: _place_of_each_placed
, place BIGINT PATH '$.place'

-- name: append_many. Writes many messages in the order of a JSON document; hold_queues has run. A value too long for
-- its column is refused by the column: as a narrower type here it would be read as null.
-- Locks: the new rows. Index: the primary key of django_mq_queue. Returns: one row for each; fewer when a queue is
-- closed. A message id that is taken is an error.
{write_many}, from_base64(n.body)
FROM (
    SELECT u.*, coalesce(u.given_at, {now} + INTERVAL round(u.delay_seconds * 1000000) MICROSECOND) AS deliver_at
    FROM JSON_TABLE(%(messages)s, '$[*]' COLUMNS (
        ordinal FOR ORDINALITY,
        queue_id BIGINT PATH '$.queue_id',
        message_id VARCHAR(36) PATH '$.message_id',
        body LONGTEXT PATH '$.body',
        content_type LONGTEXT CHARACTER SET utf8mb4 PATH '$.content_type',
        content_encoding LONGTEXT CHARACTER SET utf8mb4 PATH '$.content_encoding',
        headers LONGTEXT CHARACTER SET utf8mb4 PATH '$.headers',
        properties LONGTEXT CHARACTER SET utf8mb4 PATH '$.properties',
        told_to LONGTEXT CHARACTER SET utf8mb4 PATH '$.told_to',
        priority INT PATH '$.priority',
        type LONGTEXT CHARACTER SET utf8mb4 PATH '$.type',
        correlation_id LONGTEXT CHARACTER SET utf8mb4 PATH '$.correlation_id',
        group_key LONGTEXT CHARACTER SET utf8mb4 PATH '$.group_key',
        given_at DATETIME(6) PATH '$.deliver_at',
        delay_seconds DOUBLE PATH '$.delay_seconds',
        expires_at DATETIME(6) PATH '$.expires_at',
        ttl_seconds DOUBLE PATH '$.ttl_seconds'{place_of_each}
    )) AS u
) n
JOIN django_mq_queue q ON q.id = n.queue_id AND NOT q.closed
ORDER BY n.ordinal

-- name: hold_queues. Keeps queues from being deleted until messages for them are committed.
-- Locks: for sharing, the queues' entries in the index of names, as append does. Index: the unique name of
-- django_mq_queue. Returns: their names and ids.
SELECT name, id FROM django_mq_queue WHERE name IN %(names)s LOCK IN SHARE MODE

-- name: written. Reads the ids of what this transaction has written: one INSERT may leave gaps between them.
-- Locks: nothing. Index: django_mq_message_once. Returns: message id, queue, id.
SELECT message_id, queue_id, id FROM django_mq_message FORCE INDEX (django_mq_message_once) WHERE message_id IN %(message_ids)s

-- name: set_places. Writes the places of messages in sorted and fair queues. Of a small table, all rows would be read,
-- and locked, if the index was not named.
-- Locks: the rows it changes. Index: the primary key. Returns: nothing that is used.
UPDATE JSON_TABLE(%(placed)s, '$[*]' COLUMNS (id BIGINT PATH '$[0]', place BIGINT PATH '$[1]')) AS given
STRAIGHT_JOIN django_mq_message m FORCE INDEX (PRIMARY) ON m.id = given.id
SET m.place = given.place
