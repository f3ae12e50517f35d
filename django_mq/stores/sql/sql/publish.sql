-- name: _message_columns
queue_id, meets, state, level, place, priority, attempts, redelivered, suspect, message_id, type, correlation_id, group_key,
    published_at, deliver_at, expires_at, dead_reason, content_type, content_encoding, headers, properties, told_to, body
-- name: _ready_columns. As message_columns, of a message that is ready at once.
queue_id, meets, state, level, place, priority, attempts, redelivered, suspect, message_id, type, correlation_id, group_key,
    published_at, expires_at, dead_reason, content_type, content_encoding, headers, properties, told_to, body
-- name: _new_message. The first of message_columns, of a message that is published.
q.id, {unasked}, CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END, {level:n.priority}, {place}, n.priority, 0, false, false
-- name: _place. Where a new message stands: at the place that its queue has given it, or that its time says.
{due_place}
-- name: _place_placed
coalesce(n.place, {due_place})
-- name: _ready_place. As place, of a message that is ready at once.
0
-- name: _ready_place_placed
%(place)s
-- name: _given_place. Nothing, unless messages come with their places.
-- name: _given_place_placed
, %(place)s{as:bigint} AS place
-- name: _unasked. What a new message of a queue meets: it is asked next, if the queue declares selectors.
CASE WHEN q.declared IS NOT NULL THEN 0 END
-- name: _queue_expiry. When a message without a time to live of its own expires. A queue with no_expiry has none.
{after:coalesce(q.ttl_seconds, q.max_ttl_seconds)}

-- name: _write. {it} is another condition.
INSERT INTO django_mq_message (
    {message_columns})
SELECT
    {new_message}, %(message_id)s, %(type)s, %(correlation_id)s, %(group_key)s, {now}, n.deliver_at,
    {expiry},
    '', %(content_type)s, %(content_encoding)s, %(headers)s{as:jsonb}, %(properties)s{as:jsonb}, %(told_to)s, %(body)s
FROM django_mq_queue q
CROSS JOIN (
    SELECT
        %(priority)s{as:int} AS priority, {at:expires_at} AS expires_at, %(ttl_seconds)s{as:float8} AS ttl_seconds,
        coalesce({at:deliver_at}, {ahead:delay_seconds}) AS deliver_at{given_place}
) n
WHERE q.name = %(queue_name)s AND NOT q.closed {stays:queue_name}{it}
{unless_taken:message_id, queue_id}

-- name: append. Writes one message behind all others of its level, or at its due place.
-- Locks: the new row; the queue against deletion, see stays. Index: the unique name of django_mq_queue. Returns: the
-- id; no row when the queue is unknown or closed, or the message id is taken.
{write} {returning:id}

-- name: _write_many. Writes messages given as rows of n, but for their bodies.
INSERT INTO django_mq_message (
    {message_columns})
SELECT
    {new_message}, n.message_id, n.type, n.correlation_id, n.group_key, {now}, n.deliver_at,
    {expiry},
    '', n.content_type, n.content_encoding, n.headers{as:jsonb}, n.properties{as:jsonb}, n.told_to

-- name: message_taken. Asks whether a live message with this id is in the queue.
-- Locks: nothing. Index: django_mq_message_once. Returns: one row if there is one.
SELECT 1 FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id
WHERE q.name = %(queue)s AND m.message_id = %(message_id)s

-- name: _remembers_any. The same as remembers_any of DuplicateIds in django_mq/inprocess/entries/duplicates.py.
(dedup_count > 0 OR dedup_seconds IS NOT NULL)

-- name: duplicate_of. Asks which message has used a duplicate id, and when.
-- Locks: nothing. Index: django_mq_duplicateid_once. Returns: id, message id, when it was used, the time now, and for
-- how many seconds the queue remembers an id; no row if the id is not remembered.
SELECT d.id, d.message_id, d.published_at, {now}, q.dedup_seconds
FROM django_mq_queue q
JOIN django_mq_duplicateid d ON d.queue_id = q.id
WHERE q.name = %(queue)s AND d.dedup_id = %(dedup_id)s

-- name: remember_duplicate. Remembers a duplicate id, if its queue remembers any.
-- Locks: nothing but the new row; waits for another transaction that uses the same id. Index:
-- django_mq_duplicateid_once. Returns: the id; no row if the queue remembers none, or remembers this one.
INSERT INTO django_mq_duplicateid (queue_id, dedup_id, message_id, published_at)
SELECT id, %(dedup_id)s, %(message_id)s, {now}
FROM django_mq_queue
WHERE name = %(queue)s AND {remembers_any}
{unless_taken:queue_id, dedup_id}
{returning:id}

-- name: forget_duplicate. Deletes an expired duplicate id.
-- Locks: the row it deletes. Index: the primary key. Returns: one row if it was still there.
DELETE FROM django_mq_duplicateid WHERE id = %(id)s {returning:id}

-- name: take_back_duplicates. Deletes the duplicate ids of messages that were dropped.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_once. Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid WHERE queue_id = %(queue_id)s AND dedup_id {in_texts:dedup_ids} {returning:id}

-- name: drop_duplicates. Deletes the duplicate ids of a queue; drop_queue follows.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age. Returns: nothing.
DELETE FROM django_mq_duplicateid WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)

-- name: duplicate_windows. Finds the queues that remember duplicate ids, and how many, or for how long.
-- Locks: nothing. Index: django_mq_duplicateid_age, once per queue. Returns: queue id, count and seconds.
SELECT q.id, q.dedup_count, q.dedup_seconds FROM django_mq_queue q
WHERE EXISTS (SELECT 1 FROM django_mq_duplicateid d WHERE d.queue_id = q.id)

-- name: duplicate_horizon. Finds the time of a queue's last duplicate id but so many.
-- Locks: nothing. Index: django_mq_duplicateid_age. Returns: the time; no row if there are not so many.
SELECT published_at FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s
ORDER BY published_at DESC LIMIT 1 OFFSET %(kept)s
