-- name: _claimed_columns
m.level, m.place, m.priority, m.attempts - m.suspect::int,
m.redelivered, m.suspect, coalesce(m.expires_at <= {now}, false), m.message_id, m.type, m.correlation_id,
m.group_key, m.published_at, m.deliver_at, m.expires_at, m.content_type, m.content_encoding,
m.headers::text, m.properties::text, m.body

-- name: _claimed_across
m.id, m.claim, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), {claimed_columns}
-- name: _rank
array_position(ARRAY(SELECT id FROM chosen ORDER BY rank), m.id)

-- name: _chosen
chosen AS (
    SELECT id
    FROM (
        SELECT id, suspect, {running_totals}
        FROM head
        WINDOW delivery AS (ORDER BY level DESC, place, id ROWS UNBOUNDED PRECEDING)
    ) ranked
    WHERE {fits}
)

-- name: _chosen_across
chosen AS (
    SELECT id, rank
    FROM (
        SELECT id, suspect, rank, {running_totals}
        FROM {it}
        WINDOW delivery AS (ORDER BY rank ROWS UNBOUNDED PRECEDING)
    ) ranked
    WHERE {fits}
)

-- name: _fits. The same as fitting() in django_mq/engine/decisions/claim.py.
(turn > 1 OR total_bytes <= %(first_bytes)s::bigint)
AND ((suspects = 0 AND (turn = 1 OR total_bytes <= %(max_bytes)s::bigint))
     OR (suspect AND turn = 1 AND %(slots)s::int > 0))

-- name: _first
head AS MATERIALIZED (
    SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
    FROM django_mq_message m
    WHERE m.state = 1 AND m.queue_id = (
        SELECT q.id FROM django_mq_queue q
        WHERE q.name = %(queue)s AND NOT {paused}
          AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)) {wanted}
    ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
), {chosen}

-- name: _first_declared. A claim by a declared selector looks where the index has what matches.
head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, r.size_bytes
    FROM unnest(%(meets)s::bigint[]) AS met(meets)
    CROSS JOIN LATERAL (
        SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
        FROM django_mq_message m
        WHERE m.state = 1 AND m.meets = met.meets AND m.queue_id = (
            SELECT q.id FROM django_mq_queue q
            WHERE q.name = %(queue)s AND NOT {paused}
              AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)) {wanted}
        ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
    ) r
    ORDER BY r.level DESC, r.place, r.id LIMIT %(credit)s
), {chosen}

-- name: _from_cursor
head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, r.size_bytes AS size_bytes
    FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
        FROM django_mq_message m
        WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
          AND m.queue_id = (
            SELECT q.id FROM django_mq_queue q
            WHERE q.name = %(queue)s AND NOT {paused}
              AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)) {wanted}
        ORDER BY m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
    ) r
    LIMIT %(credit)s
), {chosen}

-- name: _candidates
candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.position, {portion_turn} AS turn,
        row_number() OVER (ORDER BY walk.listed, walk.urgency DESC, walk.turn, {in_turn}) AS rank
    FROM (
        SELECT
            r.id, given.position, given.listed,
            {turns}
        FROM unnest(%(queues)s::text[], %(listed)s::int[]) WITH ORDINALITY AS given(name, listed, position)
        JOIN django_mq_queue q ON q.name = given.name
            AND NOT {paused}
            AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)
        CROSS JOIN LATERAL ({numbered}) r
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id ROWS UNBOUNDED PRECEDING)
    ) walk
)

-- name: _lock_ready
SELECT m.id, m.suspect, octet_length(m.body) AS size_bytes FROM django_mq_message m
WHERE m.id = ordered.id AND m.state + 0 = 1
FOR UPDATE SKIP LOCKED

-- name: _first_across
{candidates}, locked AS MATERIALIZED (
    SELECT free.id, free.suspect, free.size_bytes, ordered.rank
    FROM (SELECT id, rank FROM candidates ORDER BY rank) ordered
    CROSS JOIN LATERAL ({lock_ready}) free
    LIMIT %(credit)s
), {chosen_across:locked}

-- name: _locked_apart
{candidates}, parts AS MATERIALIZED (
    SELECT position, count(*) AS size
    FROM (
        SELECT position FROM candidates
        WHERE turn <= (%(limits)s::bigint[])[position]
        ORDER BY rank LIMIT %(credit)s
    ) best
    GROUP BY position
), locked AS MATERIALIZED (
    SELECT taken.id, taken.suspect, taken.size_bytes, taken.rank, parts.position
    FROM parts
    CROSS JOIN LATERAL (
        SELECT free.id, free.suspect, free.size_bytes, ordered.rank
        FROM (SELECT id, rank FROM candidates WHERE position = parts.position ORDER BY rank) ordered
        CROSS JOIN LATERAL ({lock_ready}) free
        LIMIT parts.size
    ) taken
)

-- name: _first_apart
{locked_apart}, {chosen_across:locked}

-- name: _allowed. The same as allowed() in django_mq/engine/decisions/claim.py.
own_bytes <= CASE WHEN own_turn = 1 THEN (%(first_of)s::bigint[])[position] ELSE (%(free_of)s::bigint[])[position] END

-- name: _first_by_bytes
{locked_apart}, within AS (
    SELECT id, suspect, size_bytes, rank
    FROM (
        SELECT id, suspect, size_bytes, rank, position, row_number() OVER own AS own_turn,
               sum(size_bytes) OVER own AS own_bytes
        FROM locked
        WINDOW own AS (PARTITION BY position ORDER BY rank ROWS UNBOUNDED PRECEDING)
    ) walk
    WHERE {allowed}
), {chosen_across:within}

-- name: _lease
UPDATE django_mq_message m
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now},
    attempts = m.attempts + m.suspect::int
WHERE m.id = ANY(ARRAY(SELECT id FROM chosen))

-- name: _leased
{lease} RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
-- name: _leased_across
{lease} RETURNING {claimed_across}, (SELECT least(%(credit)s, max(rank))::int FROM candidates), {rank}
-- name: _leased_apart
{lease} RETURNING {claimed_across}, (SELECT sum(size)::int FROM parts), {rank}

-- name: _due. In how many seconds the earliest scheduled message of one queue is due.
(SELECT extract(epoch FROM d.deliver_at - {now})::float8
 FROM django_mq_message d
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)

-- name: _next_due. The same of several queues.
SELECT extract(epoch FROM min(due.deliver_at) - {now})::float8
FROM django_mq_queue q
CROSS JOIN LATERAL (
    SELECT d.deliver_at FROM django_mq_message d
    WHERE d.queue_id = q.id AND d.state = 0
    ORDER BY d.deliver_at LIMIT 1
) due
WHERE q.name = ANY(%(queues)s::text[])

-- name: next_due. Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue. Returns: seconds until it is due, or null.
{next_due}

-- name: _promote. The array keeps the plan on the primary key even when it cannot know the limit.
UPDATE django_mq_message SET state = 1
WHERE id = ANY(ARRAY(
    SELECT due.id
    FROM django_mq_queue q
    CROSS JOIN LATERAL (
        SELECT d.id FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} AND NOT {early}
        ORDER BY d.deliver_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) due
    WHERE {it}))
RETURNING id

-- name: promote_due. Makes due messages of the named queues ready, earliest first.
-- Locks: the rows it promotes, skipping locked ones. Index: django_mq_message_due. Returns: one row per message.
{promote:q.name = ANY(%(queues)s::text[])}

-- name: promote_all. Makes due messages of every queue ready, earliest of each queue first.
-- Locks: the rows it promotes, skipping locked ones. Index: django_mq_message_due. Returns: one row per message.
{promote:true}

-- name: claim. Leases the first ready messages of one queue to a session, unless the queue is paused.
-- Locks: the rows it looks at, skipping locked ones. Index: django_mq_message_ready. Returns: the messages, in no
-- order, and how many were seen before a suspect, or the bytes, cut the batch. A suspect message is taken alone, and
-- only with a free slot.
WITH {first}
{leased}

-- name: claim_across. Leases the first ready messages of several queues, merged by message priority; queues whose heads
-- are equal take turns (or, when listed, follow the order of the list).
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue. A message ranks
-- by the least priority at or before it in its queue, so that no queue's own order is broken. More candidates are read
-- than asked for, to step over rows locked by others. With state + 0, the read of one row does not walk the index of all
-- ready ones. Returns: the messages, in no order; the last columns are how many were seen, and the rank.
WITH {first_across}
{leased_across}

-- name: claim_across_apart. Leases as claim_across does, where a queue has a limit below the credit: no queue gives
-- more than its limit. Each queue is locked apart, or one would use up the credit of others; that costs more.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue. Returns: as
-- claim_across.
WITH {first_apart}
{leased_apart}

-- name: claim_across_by_bytes. Leases as claim_across_apart does, and of each queue no more bytes than its consumer has
-- credit for.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue. Returns: as
-- claim_across.
WITH {first_by_bytes}
{leased_apart}

-- name: claim_chosen. Leases the chosen messages that can be locked, and gives the session slots in the queues of
-- some messages and the groups of others. Of one line, no message behind a locked one is leased.
-- Locks: the rows it returns, skipping locked ones, and the new ones of django_mq_ownership. Index: the primary key.
-- Returns: the id of each that could be locked, and the message, nulls where it was not leased; in no order.
WITH free AS MATERIALIZED (
    SELECT m.id FROM django_mq_message m WHERE m.id = ANY(%(ids)s::bigint[]) AND m.state + 0 = 1
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT walk.id
    FROM (
        SELECT given.id, bool_and(free.id IS NOT NULL) OVER (PARTITION BY given.line ORDER BY given.rank) AS is_free
        FROM unnest(%(ids)s::bigint[], %(lines)s::bigint[]) WITH ORDINALITY AS given(id, line, rank)
        LEFT JOIN free ON free.id = given.id
    ) walk
    WHERE walk.is_free
), owned AS (
    INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
    SELECT DISTINCT m.queue_id, CASE WHEN given.is_group THEN m.group_key END, %(session)s::bigint
    FROM (
        SELECT unnest(%(slots)s::bigint[]) AS id, false AS is_group
        UNION ALL SELECT unnest(%(groups)s::bigint[]), true
    ) given
    -- Fenced: a plan made while the table holds dead rows only would read the whole index, and stay.
    CROSS JOIN LATERAL (SELECT queue_id, group_key FROM django_mq_message WHERE id = given.id OFFSET 0) m
    WHERE given.id IN (SELECT chosen.id FROM chosen)
), claimed AS (
    {lease}
    RETURNING {claimed_across}
)
SELECT free.id, claimed.* FROM free LEFT JOIN claimed ON claimed.id = free.id

-- name: _answered
SELECT EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s) AS alive, {it}, claimed.*
FROM (SELECT) once
LEFT JOIN claimed ON true

-- name: _void
CASE WHEN (SELECT count(*) FROM gone) < cardinality(%(ids)s::bigint[])
     THEN ARRAY(SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given(id)
                WHERE given.id NOT IN (SELECT gone.id FROM gone)) END

-- name: _answer
{answered:{due} AS due, {void} AS void}

-- name: _answer_across
{answered:({next_due}) AS due, {void} AS void}

-- name: _answer_alone
{answered:{due} AS due, NULL::bigint[] AS void}

-- name: _answer_alone_across
{answered:({next_due}) AS due, NULL::bigint[] AS void}

-- name: claim_alone. Claims the next of one queue when nothing is to be settled: settle_and_claim without its first
-- half, which would open the history and its indexes for nothing. A worker runs it after it was idle.
-- Locks: the rows it looks at for the claim, skipping locked ones. Index: django_mq_message_ready, the primary key,
-- django_mq_message_due. Returns: as settle_and_claim; nothing was void.
WITH {first}, claimed AS ({leased})
{answer_alone}

-- name: claim_alone_across. Claims from several queues where nothing is to be settled, as claim_alone from one.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, the primary key,
-- django_mq_message_due. Returns: as settle_and_claim; the last column is the rank, and nothing was void.
WITH {first_across}, claimed AS ({leased_across})
{answer_alone_across}

-- name: claim_alone_across_apart. Claims as claim_across_apart where nothing is to be settled.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, the primary key,
-- django_mq_message_due. Returns: as claim_alone_across.
WITH {first_apart}, claimed AS ({leased_apart})
{answer_alone_across}

-- name: claim_alone_across_by_bytes. Claims as claim_across_by_bytes where nothing is to be settled.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, the primary key,
-- django_mq_message_due. Returns: as claim_alone_across.
WITH {first_by_bytes}, claimed AS ({leased_apart})
{answer_alone_across}

-- name: claim_alone_from_cursor. Claims as claim_alone does, beginning in each level where settle_and_claim_from_cursor begins.
-- Locks: the rows it looks at for the claim, skipping locked ones. Index: django_mq_message_ready entered once per
-- level, the primary key, django_mq_message_due. Returns: as settle_and_claim; nothing was void.
WITH {from_cursor}, claimed AS ({leased})
{answer_alone}

-- name: lock_claims. Makes claimers of a queue with rules wait for each other. The condition keeps the row as it is: it
-- is locked nevertheless, and has no new version.
-- Locks: the queue's claim lock, until the transaction ends. Index: the primary key. Returns: nothing that is used.
INSERT INTO django_mq_turn (queue_id)
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false

-- name: _next_due_microseconds
({due} * 1000000)::bigint
