-- name: told. Reads what a session is told to do, and whether it is asked to stop something.
-- Locks: nothing. Index: the primary key, django_mq_stop_session. Returns: one row, if the session lives.
SELECT conduct, given_credit, {has_stops} FROM django_mq_workersession WHERE id = %(session)s

-- name: prune_stops. Forgets requests to sessions that have ended while the requests were written.
-- Locks: the rows it deletes. Index: the primary keys. Returns: a row for each.
DELETE FROM django_mq_stoprequest
WHERE NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = django_mq_stoprequest.session_id)
  AND NOT {still_held}
ORDER BY id LIMIT %(limit)s

-- name: find_held_by_expired. Finds what expired sessions hold; also what is held in the name of a session that no longer exists
-- (a claim that committed while its session was being reaped).
-- Locks: nothing. Index: django_mq_message_claimed, whose entries without a session are not read. Returns: ids.
SELECT held.id
FROM django_mq_message held FORCE INDEX (django_mq_message_claimed)
LEFT JOIN django_mq_workersession s ON s.id = held.session_id
WHERE held.session_id > 0 AND held.state = 2 AND (s.id IS NULL OR s.id IN %(sessions)s)

-- name: lock_held_by_expired. Locks what find_held_by_expired found, unless another transaction has taken it meanwhile. A suspect that killed its
-- worker again keeps its counted attempt.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: the session and the id of each,
-- whether this claim counts, its attempts, how many its queue allows, and the claim.
SELECT held.session_id, held.id, held.suspect, held.attempts,
       (SELECT q.max_attempts FROM django_mq_queue q WHERE q.id = held.queue_id), held.claim
FROM django_mq_message held
WHERE held.id IN %(ids)s AND held.state = 2 AND (
    held.session_id IN %(sessions)s
    OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
FOR UPDATE SKIP LOCKED

-- name: release_held_by_expired. Gives back, marked suspect, what lock_held_by_expired locked. The claim token stays: lock_given_back
-- knows by it what nothing has become of since. It is negative where the claim counted an attempt. The columns change
-- from left to right here, so that suspect must come after claim.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET claim = CASE WHEN suspect THEN -claim ELSE claim END,
    state = 1, redelivered = true, released_at = {now}, suspect = true, session_id = NULL, claimed_at = NULL
WHERE id IN %(ids)s
