-- name: _settled
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

-- name: _buried
unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(reason)s::text[], %(counted)s::bool[])
    AS given(id, claim, reason, counted)
-- name: _released
unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(delay_seconds)s::float8[], %(counted)s::bool[])
    AS given(id, claim, delay_seconds, counted)
-- name: _by_id. Keeps the plan on the primary key for a batch of unknown size.
m.id = ANY(%(ids)s::bigint[]) AND
-- name: _later
{after:given.delay_seconds}

-- name: settle_finished. Removes claimed messages and remembers them in the history, where the queue keeps one.
-- Locks: the rows it removes. Index: the primary key. Fenced by session and claim token, which only a claimed row has;
-- to ask for the state as well would invite the planner to walk the index of claimed rows, which is full of dead
-- entries. No join: planned for a batch of unknown size, it could compare every row with every other. IS TRUE keeps the
-- tokens in a hash table. Returns: the ids that were still held.
WITH {settled}
SELECT id FROM gone

-- name: settle_and_claim. Settles what was accepted and claims the next of one queue: settle_finished, claim and
-- next_due as one statement, which is a transaction by itself. A busy worker runs nothing else.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones. Index: the primary key,
-- django_mq_message_ready, django_mq_message_due. Returns: whether the session lives, seconds until the next message is
-- due (0 or less: now), the ids that were void, null for none, since they are repeated in every row, and a claimed
-- message; one row with nulls for it when there is none.
WITH {settled}, {first}, claimed AS ({leased})
{answer}

-- name: settle_and_claim_across. Settles what was accepted and claims the next of several queues.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key,
-- django_mq_message_ready, django_mq_message_due. Returns: as settle_and_claim; the last column is the rank.
WITH {settled}, {first_across}, claimed AS ({leased_across})
{answer_across}

-- name: settle_and_claim_across_apart. Settles what was accepted and claims as claim_across_apart.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key,
-- django_mq_message_ready, django_mq_message_due. Returns: as settle_and_claim_across.
WITH {settled}, {first_apart}, claimed AS ({leased_apart})
{answer_across}

-- name: settle_and_claim_across_by_bytes. Settles what was accepted and claims as claim_across_by_bytes.
-- Locks: the rows it removes, and those it takes, skipping locked ones. Index: the primary key,
-- django_mq_message_ready, django_mq_message_due. Returns: as settle_and_claim_across.
WITH {settled}, {first_by_bytes}, claimed AS ({leased_apart})
{answer_across}

-- name: settle_and_claim_from_cursor. Settles what was accepted and claims the next of one queue, as settle_and_claim does,
-- beginning in each level behind the place up to which the session knows that nothing is ready. Entries of deleted
-- messages before that place, perhaps millions, are not walked over.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones. Index: the primary key,
-- django_mq_message_ready entered once per level, django_mq_message_due. Returns: as settle_and_claim.
WITH {settled}, {from_cursor}, claimed AS ({leased})
{answer}

-- name: retake. Gives a session back what was taken from it because its deadline had passed, unless the message was
-- claimed, moved, settled or retried since: otherwise it still has the token of the session's claim.
-- Locks: the rows it changes. Index: the primary key. Returns: the ids, those included that the session holds anyway.
UPDATE django_mq_message m
SET {taken_back}
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]) AS given(id, claim)
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.id = given.id
  AND coalesce(m.session_id, %(session)s) = %(session)s AND abs(m.claim) = given.claim
RETURNING m.id

-- name: record_attempts. Remembers failed attempts of messages that are still rows here, after their settlement. A
-- delivery that was not counted is the one after those that were.
-- Locks: the new rows. Index: the primary key of django_mq_message. Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, error_path, detail,
    traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type, m.attempts + (NOT given.counted)::int, {now}, {worker_name},
       given.error, given.error_path, given.detail, given.traceback
FROM unnest(%(ids)s::bigint[], %(counted)s::bool[], %(errors)s::text[], %(error_paths)s::text[], %(details)s::text[],
            %(tracebacks)s::text[])
    AS given(id, counted, error, error_path, detail, traceback)
JOIN django_mq_message m ON {by_id} m.id = given.id
JOIN django_mq_queue q ON q.id = m.queue_id
