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
-- name: _released_once_more
coalesce(m.properties, jsonb_build_object()) || jsonb_build_object('mq_releases',
        CASE WHEN jsonb_typeof(m.properties -> 'mq_releases') = 'number'
             THEN (m.properties ->> 'mq_releases')::float8::bigint + 1 ELSE 1 END)

-- name: settle_finished. Removes claimed messages and remembers them in the history, where the queue keeps one.
-- Locks: the rows it removes. Index: the primary key. Fenced by session and claim token, which only a claimed row has;
-- to ask for the state as well would invite the planner to walk the index of claimed rows, which is full of dead
-- entries. No join: planned for a batch of unknown size, it could compare every row with every other. IS TRUE keeps the
-- tokens in a hash table. Returns: the ids that were still held.
WITH {settled}
SELECT id FROM gone

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
