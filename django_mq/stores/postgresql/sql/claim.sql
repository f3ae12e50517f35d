-- name: _settled. What a claim settles first: accepted messages go, and into the history where their queue keeps one.
gone AS (
    DELETE FROM django_mq_message m
    WHERE m.id = ANY(%(ids)s::bigint[]) AND m.session_id = %(session)s
      AND ((m.id, m.claim) IN (SELECT * FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]))) IS TRUE
    RETURNING m.*
), kept AS (
    {finished_row}
    FROM gone
    JOIN django_mq_queue q ON q.id = gone.queue_id
    WHERE q.history_days > 0
)

-- name: _settled_alone. A claim without settlements: to open the history and its indexes for nothing takes time.
gone AS (SELECT)

-- name: _void. The settlements that no longer counted, null if there were none: they are repeated in every row.
CASE WHEN (SELECT count(*) FROM gone) < cardinality(%(ids)s::bigint[])
     THEN ARRAY(SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given(id)
                WHERE given.id NOT IN (SELECT gone.id FROM gone)) END

-- name: _void_alone
NULL::bigint[]

-- name: _claimable. The id of a claim's queue, if the queue is not paused and the session lives.
SELECT q.id FROM django_mq_queue q
WHERE q.name = %(queue)s AND NOT {paused}
  AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)

-- name: _candidates. The first ready messages of several queues, ranked: by the least priority at or before a message
-- in its queue, so that no queue's own order is broken. Queues whose heads are equal take turns, or follow the list.
candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.position, walk.turn,
        row_number() OVER (ORDER BY walk.listed, walk.urgency DESC, walk.turn, walk.position) AS rank
    FROM (
        SELECT
            r.id, given.position, given.listed,
            row_number() OVER own AS turn, min(r.priority) OVER own AS urgency
        FROM unnest(%(queues)s::text[], %(listed)s::int[]) WITH ORDINALITY AS given(name, listed, position)
        JOIN django_mq_queue q ON q.name = given.name
            AND NOT {paused}
            AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)
        CROSS JOIN LATERAL (
            SELECT m.id, m.priority, m.level, m.place
            FROM django_mq_message m
            WHERE m.state = 1 AND m.queue_id = q.id
            ORDER BY m.level DESC, m.place, m.id LIMIT %(candidates)s
        ) r
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id ROWS UNBOUNDED PRECEDING)
    ) walk
)

-- name: _candidates_wanted. The same by selectors: each handler of a queue is given apart, as a portion. A message
-- beyond the limit of its handler, read in case that others are locked, takes no turn.
candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.position, walk.portion_turn AS turn,
        row_number() OVER (
            ORDER BY walk.listed, walk.urgency DESC, walk.turn, walk.queue, walk.queue_turn) AS rank
    FROM (
        SELECT
            r.id, given.position, given.listed, r.portion_turn,
            count(*) FILTER (WHERE {within}) OVER own AS turn,
            min(r.priority) FILTER (WHERE {within}) OVER own AS urgency,
            array_position(%(queues)s::text[], given.name) AS queue, row_number() OVER own AS queue_turn
        FROM unnest(%(queues)s::text[], %(listed)s::int[]) WITH ORDINALITY AS given(name, listed, position)
        JOIN django_mq_queue q ON q.name = given.name
            AND NOT {paused}
            AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)
        CROSS JOIN LATERAL (
            SELECT read.*, row_number() OVER (ORDER BY read.level DESC, read.place, read.id) AS portion_turn
            FROM ({portion}) read
        ) r
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id ROWS UNBOUNDED PRECEDING)
    ) walk
)

-- name: _portion. What is read for one handler: in each level, from the session's cursor.
SELECT beyond.id, beyond.priority, beyond.level, beyond.place
FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
CROSS JOIN LATERAL (
    SELECT m.id, m.priority, m.level, m.place
    FROM django_mq_message m
    WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
      AND m.queue_id = q.id {wanted}
    ORDER BY m.place, m.id LIMIT %(candidates)s
) beyond
LIMIT %(candidates)s

-- name: _first_page_resumed. The first page for the arbiter: in each level, from the session's cursor.
SELECT {candidate}
FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
CROSS JOIN LATERAL (
    SELECT r.*
    FROM django_mq_message r
    WHERE r.state = 1 AND r.level = from_here.level AND (r.place, r.id) > (from_here.place, from_here.id)
      AND r.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused})
    ORDER BY r.place, r.id LIMIT %(limit)s
) m
LIMIT %(limit)s

-- name: _portion_declared. The same where selectors are declared: for one of these, what the index has that matches.
(
    SELECT beyond.id, beyond.priority, beyond.level, beyond.place
    FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.priority, m.level, m.place
        FROM django_mq_message m
        WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
          AND m.queue_id = q.id {wanted}
        ORDER BY m.place, m.id LIMIT %(candidates)s
    ) beyond
    WHERE given.position <> ALL(%(met_by)s::bigint[])
    LIMIT %(candidates)s
) UNION ALL (
    SELECT known.id, known.priority, known.level, known.place
    FROM unnest(%(met_by)s::bigint[], %(meets)s::bigint[]) AS met(position, meets)
    CROSS JOIN LATERAL (
        SELECT m.id, m.priority, m.level, m.place
        FROM django_mq_message m
        WHERE m.state = 1 AND m.queue_id = q.id AND m.meets = met.meets {wanted}
        ORDER BY m.level DESC, m.place, m.id LIMIT %(candidates)s
    ) known
    WHERE met.position = given.position
)

-- name: _within
r.portion_turn <= (%(limits)s::bigint[])[given.position]

-- name: _lock_ready. With state + 0, the read of one row does not walk the index of all ready ones.
SELECT m.id, m.suspect, octet_length(m.body) AS size_bytes FROM django_mq_message m
WHERE m.id = ordered.id AND m.state + 0 = 1
FOR UPDATE SKIP LOCKED

-- name: _locked. Locks of each queue, or portion, as many candidates as it has among the best. Each is locked apart, or
-- one would use up the credit of others.
parts AS MATERIALIZED (
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
        CROSS JOIN LATERAL (
            {lock_ready}
        ) free
        LIMIT parts.size
    ) taken
)

-- name: _allowed. The same as allowed() in django_mq/engine/decisions/claim.py.
own_bytes <= CASE WHEN own_turn = 1 THEN (%(first_of)s::bigint[])[position] ELSE (%(free_of)s::bigint[])[position] END

-- name: _chosen. Cuts the first messages, in this order, before a suspect, and at the bytes: the same as fitting() in
-- django_mq/engine/decisions/claim.py.
chosen AS (
    SELECT id, turn
    FROM (
        SELECT
            id, suspect, row_number() OVER delivery AS turn,
            count(*) FILTER (WHERE suspect) OVER delivery AS suspects, sum(size_bytes) OVER delivery AS total_bytes
        FROM head
        WINDOW delivery AS (ORDER BY {it} ROWS UNBOUNDED PRECEDING)
    ) ranked
    WHERE (turn > 1 OR total_bytes <= %(first_bytes)s::bigint)
      AND ((suspects = 0 AND (turn = 1 OR total_bytes <= %(max_bytes)s::bigint))
           OR (suspect AND turn = 1 AND %(slots)s::int > 0))
)

-- name: _lease
UPDATE django_mq_message m
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now},
    attempts = m.attempts + m.suspect::int
WHERE m.id = ANY(ARRAY(SELECT id FROM chosen))

-- name: _claimed_columns. A claimed message; its queue's name is given.
m.id, m.claim, {it}, m.level, m.place, m.priority, m.attempts - m.suspect::int,
    m.redelivered, m.suspect, coalesce(m.expires_at <= {now}, false), m.message_id, m.type, m.correlation_id,
    m.group_key, m.published_at, m.deliver_at, m.expires_at, m.content_type, m.content_encoding,
    m.headers::text, m.properties::text, m.told_to, m.body

-- name: _queue_name
(SELECT name FROM django_mq_queue WHERE id = m.queue_id)

-- name: _rank
array_position(ARRAY(SELECT id FROM chosen ORDER BY turn), m.id)

-- name: _due. In how many seconds the earliest scheduled message of one queue is due.
(SELECT extract(epoch FROM d.deliver_at - {now})::float8
 FROM django_mq_message d
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)

-- name: _due_of_all. The same of several queues.
(SELECT extract(epoch FROM min(due.deliver_at) - {now})::float8
 FROM django_mq_queue q
 CROSS JOIN LATERAL (
     SELECT d.deliver_at FROM django_mq_message d
     WHERE d.queue_id = q.id AND d.state = 0
     ORDER BY d.deliver_at LIMIT 1
 ) due
 WHERE q.name = ANY(%(queues)s::text[]))

-- name: _answer. One row for each claimed message, and one if there is none.
SELECT
    EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s) AS alive,
    {it} AS due,
    {void} AS void,
    claimed.*
FROM (SELECT) once
LEFT JOIN claimed ON true

-- name: claim. Settles what was accepted and claims the next of one queue, in one statement, which is a transaction by
-- itself. A busy worker runs nothing else but this one and claim_from_cursor.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones. Index: the primary key,
-- django_mq_message_ready, django_mq_message_due. Returns: whether the session lives, seconds until the next message is
-- due (0 or less: now), the ids whose settlement was void, null for none, and a claimed message with how many were seen
-- before a suspect, or the bytes, cut the claim; in no order; one row with nulls if there is none. A suspect message is
-- taken alone, and only with a free slot. A paused queue gives none.
WITH {settled}, head AS MATERIALIZED (
    SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
    FROM django_mq_message m
    WHERE m.state = 1 AND m.queue_id = (
        {claimable}
    ) {wanted}
    ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
), {chosen:level DESC, place, id}, claimed AS (
    {lease}
    RETURNING {claimed_columns:%(queue)s::text}, (SELECT count(*) FROM head)
)
{answer:{due}}

-- name: claim_from_cursor. Settles and claims as claim does, beginning in each level behind the place up to which the
-- session knows that nothing is ready. Entries of deleted messages before that place, perhaps millions, are not walked
-- over.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones. Index: the primary key,
-- django_mq_message_ready entered once per level, django_mq_message_due. Returns: as claim.
WITH {settled}, head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, r.size_bytes
    FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
        FROM django_mq_message m
        WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
          AND m.queue_id = (
            {claimable}
          ) {wanted}
        ORDER BY m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
    ) r
    LIMIT %(credit)s
), {chosen:level DESC, place, id}, claimed AS (
    {lease}
    RETURNING {claimed_columns:%(queue)s::text}, (SELECT count(*) FROM head)
)
{answer:{due}}

-- name: claim_declared. Settles and claims as claim does, by a declared selector: it looks where the index has what
-- matches.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones. Index: the primary key,
-- django_mq_message_meets entered once per value, django_mq_message_due. Returns: as claim.
WITH {settled}, head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, r.size_bytes
    FROM unnest(%(meets)s::bigint[]) AS met(meets)
    CROSS JOIN LATERAL (
        SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
        FROM django_mq_message m
        WHERE m.state = 1 AND m.meets = met.meets AND m.queue_id = (
            {claimable}
        ) {wanted}
        ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED
    ) r
    ORDER BY r.level DESC, r.place, r.id LIMIT %(credit)s
), {chosen:level DESC, place, id}, claimed AS (
    {lease}
    RETURNING {claimed_columns:%(queue)s::text}, (SELECT count(*) FROM head)
)
{answer:{due}}

-- name: claim_across. Settles what was accepted and claims the next of several queues, or for several handlers, merged
-- by message priority.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key, django_mq_message_ready,
-- one walk per queue, django_mq_message_due. More candidates are read than asked for, to step over rows locked by
-- others. Returns: as claim; the last column is the rank.
WITH {settled}, {candidates}, head AS MATERIALIZED (
    SELECT free.id, free.suspect, free.size_bytes, ordered.rank
    FROM (SELECT id, rank FROM candidates ORDER BY rank) ordered
    CROSS JOIN LATERAL (
        {lock_ready}
    ) free
    LIMIT %(credit)s
), {chosen:rank}, claimed AS (
    {lease}
    RETURNING {claimed_columns:{queue_name}}, (SELECT least(%(credit)s, max(rank))::int FROM candidates), {rank}
)
{answer:{due_of_all}}

-- name: claim_across_by_limits. Settles and claims as claim_across does, where a queue, or a handler, has a limit below
-- the credit: none gives more than its limit. That costs more.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key, django_mq_message_ready,
-- one walk per queue, django_mq_message_due. Returns: as claim_across.
WITH {settled}, {candidates}, {locked}, head AS (
    SELECT id, suspect, size_bytes, rank FROM locked
), {chosen:rank}, claimed AS (
    {lease}
    RETURNING {claimed_columns:{queue_name}}, (SELECT sum(size)::int FROM parts), {rank}
)
{answer:{due_of_all}}

-- name: claim_across_by_bytes. Settles and claims as claim_across_by_limits does, and takes of each queue no more bytes
-- than its consumer has credit for.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key, django_mq_message_ready,
-- one walk per queue, django_mq_message_due. Returns: as claim_across.
WITH {settled}, {candidates}, {locked}, head AS (
    SELECT id, suspect, size_bytes, rank
    FROM (
        SELECT id, suspect, size_bytes, rank, position, row_number() OVER own AS own_turn,
               sum(size_bytes) OVER own AS own_bytes
        FROM locked
        WINDOW own AS (PARTITION BY position ORDER BY rank ROWS UNBOUNDED PRECEDING)
    ) walk
    WHERE {allowed}
), {chosen:rank}, claimed AS (
    {lease}
    RETURNING {claimed_columns:{queue_name}}, (SELECT sum(size)::int FROM parts), {rank}
)
{answer:{due_of_all}}

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
    RETURNING {claimed_columns:{queue_name}}
)
SELECT free.id, claimed.* FROM free LEFT JOIN claimed ON claimed.id = free.id

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

-- name: lock_claims. Makes claimers of a queue with rules wait for each other. The condition keeps the row as it is: it
-- is locked nevertheless, and has no new version.
-- Locks: the queue's claim lock, until the transaction ends. Index: the primary key. Returns: nothing that is used.
INSERT INTO django_mq_turn (queue_id)
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false

-- name: _next_due_microseconds
({due} * 1000000)::bigint
