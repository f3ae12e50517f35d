-- name: _size_bytes
length(m.body)

-- name: _claimed_columns
m.id, %(claim)s, chosen.queue_name, m.level, m.place, m.priority, m.attempts,
+m.redelivered, +m.suspect, coalesce(m.expires_at <= {now}, 0), m.message_id, m.type, m.correlation_id,
m.group_key, +m.published_at, +m.deliver_at, +m.expires_at, m.content_type, m.content_encoding,
m.headers, m.properties, m.told_to, m.body

-- name: next_due. Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue. What is due already waits in a paused queue, where
-- no claim has looked: it is no reason to look again. Returns: seconds until it is due, null when there is none.
SELECT ({microseconds:min(due.deliver_at)} - %(now_microseconds)s) / 1000000.0
FROM (
    SELECT (
        SELECT d.deliver_at FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND (d.deliver_at > {now} OR NOT {paused})
        ORDER BY d.deliver_at LIMIT 1
    ) AS deliver_at
    FROM django_mq_queue q
    WHERE q.name IN (SELECT value FROM json_each(%(queues)s))
) due

-- name: _promote
UPDATE django_mq_message SET state = 1
WHERE id IN (
    SELECT due.id
    FROM django_mq_queue q
    CROSS JOIN django_mq_message due ON due.id IN (
        SELECT d.id FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} AND NOT {early}
        ORDER BY d.deliver_at LIMIT %(limit)s)
    {it})
RETURNING id

-- name: promote_due. Makes due messages of the named queues ready, earliest first.
-- Locks: the database for writing. Index: django_mq_message_due. Returns: one row per promoted message.
{promote:WHERE q.name {in:queues}}

-- name: promote_all. Makes due messages of every queue ready, earliest of each queue first.
-- Locks: the database for writing. Index: django_mq_message_due. Returns: one row per promoted message.
{promote}

-- name: claimable. Asks whether a claim would find anything: a ready or due message of a queue that is not paused.
-- Locks: nothing. Index: django_mq_message_ready and _due, one probe each per queue. Returns: one row if so.
SELECT 1
FROM django_mq_queue q
WHERE q.name IN (SELECT value FROM json_each(%(queues)s)) AND NOT {paused}
  AND (EXISTS (SELECT 1 FROM django_mq_message m WHERE m.queue_id = q.id AND m.state = 1)
    OR EXISTS (SELECT 1 FROM django_mq_message m
               WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}))
LIMIT 1

-- name: _known. The first messages with one of the numbers of a selector.
SELECT id FROM (
    SELECT m.id FROM django_mq_message m
    WHERE m.state = 1 AND m.queue_id = chosen.id AND m.meets = (SELECT value FROM json_each(%(meets)s) WHERE key = {it})
      {wanted}
    ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s)

-- name: claim. Reads the first ready messages of one queue, unless the queue is paused; lease takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready. Returns: the messages, in order;
-- the store itself cuts them before a suspect.
SELECT {claimed_columns}
FROM (SELECT q.id, q.name AS queue_name FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) chosen
CROSS JOIN django_mq_message m ON m.queue_id = chosen.id AND m.state = 1 {wanted}
ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s

-- name: claim_declared. Reads as claim does, by a declared selector: it looks where the index has what matches.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_meets, entered once per value. Returns: as
-- claim.
SELECT {claimed_columns}
FROM (SELECT q.id, q.name AS queue_name FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) chosen
CROSS JOIN django_mq_message m ON m.id IN ({known:0} UNION ALL {known:1} UNION ALL {known:2})
ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s

-- name: _candidates
candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.suspect, walk.size_bytes, walk.queue_name{it},
        row_number() OVER (ORDER BY walk.listed, walk.urgency DESC, walk.turn, walk.position) AS rank
    FROM (
        SELECT
            r.id, r.suspect, length(r.body) AS size_bytes, q.name AS queue_name, given.key AS position,
            given.value AS given, json_extract(given.value, '$.listed') AS listed,
            row_number() OVER own AS turn, min(r.priority) OVER own AS urgency
        FROM json_each(%(given)s) AS given
        CROSS JOIN django_mq_queue q ON q.name = json_extract(given.value, '$.queues') AND NOT {paused}
        CROSS JOIN django_mq_message r ON r.id IN (
            SELECT id FROM (
                SELECT id, row_number() OVER (ORDER BY level DESC, place, id) AS portion_turn FROM (
                    SELECT m.id, m.level, m.place
                    FROM django_mq_message m
                    WHERE m.state = 1 AND m.queue_id = q.id {wanted}
                    ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s))
            WHERE portion_turn <= json_extract(given.value, '$.limits'))
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id)
    ) walk
    ORDER BY rank LIMIT %(credit)s
)

-- name: _chosen
chosen AS (
    SELECT id, queue_name, rank, (SELECT count(*) FROM candidates) AS seen
    FROM (
        SELECT
            id, suspect, queue_name, rank, sum(suspect) OVER (ORDER BY rank) AS suspects,
            sum(size_bytes) OVER (ORDER BY rank) AS total_bytes
        FROM {it}
    )
    WHERE (suspects = 0 AND (rank = 1 OR total_bytes <= %(max_bytes)s))
       OR (suspect AND rank = 1 AND %(slots)s > 0)
)

-- name: _taken
SELECT {claimed_columns}, chosen.seen, chosen.rank
FROM chosen
JOIN django_mq_message m ON m.id = chosen.id

-- name: claim_across. Chooses the first ready messages of several queues, merged by message priority; queues whose
-- heads are equal take turns (or, when listed, follow the order of the list). lease takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready, one walk per queue. A message
-- ranks by the least priority at or before it in its queue, so that no queue's own order is broken, and no queue gives
-- more than its own limit. How many are taken is the same as fitting() in django_mq/engine/decisions/claim.py. Returns: the
-- messages, in no order; the last columns are how many were seen, and the rank.
WITH {candidates}, {chosen:candidates}
{taken}

-- name: _allowed. The same as allowed() in django_mq/engine/decisions/claim.py.
own_bytes <= json_extract(given, CASE WHEN own_turn = 1 THEN '$.first_of' ELSE '$.free_of' END)

-- name: claim_across_by_bytes. Chooses as claim_across does, and of each queue no more bytes than its consumer has credit
-- for. lease takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready, one walk per queue. Returns: as
-- claim_across.
WITH {candidates:, walk.position, walk.given}, within AS (
    SELECT id, suspect, size_bytes, queue_name, row_number() OVER (ORDER BY rank) AS rank
    FROM (
        SELECT
            id, suspect, size_bytes, queue_name, rank, given, row_number() OVER own AS own_turn,
            sum(size_bytes) OVER own AS own_bytes
        FROM candidates
        WINDOW own AS (PARTITION BY position ORDER BY rank)
    )
    WHERE {allowed}
), {chosen:within}
{taken}

-- name: lock_chosen. Reads those of the chosen messages that are still ready; lease takes them.
-- Locks: nothing; runs inside the write transaction. Index: the primary key. Returns: the messages, in no order.
SELECT {claimed_columns}
FROM (
    SELECT c.id, q.name AS queue_name
    FROM django_mq_message c
    JOIN django_mq_queue q ON q.id = c.queue_id
    WHERE c.id IN (SELECT value FROM json_each(%(ids)s)) AND c.state = 1
) chosen
JOIN django_mq_message m ON m.id = chosen.id

-- name: _redelivered. The index's condition says "redelivered" or "redelivered = 1" according to the Django that made
-- it: a statement has to say both.
(w.redelivered AND w.redelivered = 1)

-- name: _next_due_microseconds
(SELECT {microseconds:d.deliver_at} - %(now_microseconds)s
 FROM django_mq_message d
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)

-- name: own_chosen. Gives a session what becomes its own with messages: a slot in their queue, or their group.
-- Locks: the database for writing. Index: the primary key. Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT DISTINCT m.queue_id, CASE WHEN json_extract(given.value, '$[1]') THEN m.group_key END, %(session)s
FROM json_each(%(owned)s) given
CROSS JOIN django_mq_message m ON m.id = json_extract(given.value, '$[0]')
