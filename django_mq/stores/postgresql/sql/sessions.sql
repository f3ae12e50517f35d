-- name: _attended
EXISTS (
    SELECT 1 FROM pg_locks l
    JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.classid = 28017 AND l.objsubid = 2 AND l.granted
      AND l.objid = mod(s.id, 2147483647)::int::oid)

-- name: _abandoned
(s.guarded AND s.deadline > {now} + %(reconnect_seconds)s * interval '1 second' AND NOT {attended})

-- name: renew. Moves a session's deadline, and looks for messages whose hint was lost.
-- Locks: the session's row. Index: the primary key, twice; django_mq_message_ready and _due, one probe for each queue;
-- django_mq_stop_session.
-- Returns: the id, whether no older session is renewed by its own worker or its connection has ended, and whether a
-- claim of the session might find something, what it is told to do, and whether it is asked to stop something; no row when the session was reaped.
UPDATE django_mq_workersession renewed
SET {renewed}
WHERE renewed.id = %(session)s
RETURNING renewed.id, NOT coalesce((
    SELECT NOT s.guarded OR {attended}
    FROM django_mq_workersession s
    WHERE s.id < %(session)s AND s.deadline >= {now}
      AND s.heartbeat_at >= {now} - %(deadline_seconds)s * interval '1 second'
    ORDER BY s.id LIMIT 1), false),
    %(look)s::boolean AND EXISTS (
        SELECT 1 FROM django_mq_queue q
        WHERE q.name IN (SELECT jsonb_array_elements_text(%(queues)s::jsonb))
          AND NOT {paused}
          AND (EXISTS (SELECT 1 FROM django_mq_message m WHERE m.queue_id = q.id AND m.state = 1)
            OR EXISTS (SELECT 1 FROM django_mq_message m
                       WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}))),
    renewed.conduct, renewed.given_credit, {has_stops}

-- name: prolong. Moves the deadline of a session that has not passed it, in place of its worker. It does not move
-- the deadline if the liveness lock has ended: shorten_deadlines decides then.
-- Locks: the session's row. Index: the primary key. Returns: the id; no row when the session is given up.
UPDATE django_mq_workersession s
SET deadline = {now} + %(deadline_seconds)s * interval '1 second'
WHERE s.id = %(session)s AND s.deadline >= {now} AND (NOT s.guarded OR {attended})
RETURNING s.id

-- name: hold_liveness_lock. Takes an advisory lock in the name of a session; it ends with the connection. Through a
-- pooler the connection is not the worker's own, which the number of the server's process tells; then
-- no lock is taken.
-- Locks: the session's row; an advisory lock in the class of the queues, until the connection ends. Index: the primary
-- key. Returns: whether the connection is the worker's own, and whether it stands for the session now; no row when the
-- session was reaped.
UPDATE django_mq_workersession s
SET guarded = CASE WHEN pg_backend_pid() = %(backend)s
                   THEN pg_try_advisory_lock(28017, mod(s.id, 2147483647)::int) ELSE false END,
    deadline = {now} + %(deadline_seconds)s * interval '1 second'
WHERE s.id = %(session)s
RETURNING pg_backend_pid() = %(backend)s, s.guarded

-- name: lock_disconnected. Locks the sessions whose liveness lock seems to have ended, for a second look: one that has
-- taken it again meanwhile must keep its deadline.
-- Locks: the rows it returns, skipping locked ones: a renewal is under way there. Index: none, there are few sessions.
-- Returns: ids.
SELECT s.id FROM django_mq_workersession s
WHERE {abandoned} AND pg_postmaster_start_time() < {now} - %(grace_seconds)s * interval '1 second'
ORDER BY s.id FOR UPDATE SKIP LOCKED

-- name: shorten_deadlines. Gives sessions whose liveness lock has ended the time to connect again.
-- Locks: the rows it changes, which lock_disconnected has locked. Index: the primary key. Returns: the ids of those that
-- have not taken the lock again.
UPDATE django_mq_workersession s
SET deadline = {ahead:reconnect_seconds}
WHERE s.id {in:ids} AND {abandoned}
RETURNING s.id

-- name: release_held_by_expired. Gives back what expired sessions held, marked suspect; also what is held in the name of a
-- session that no longer exists (a claim that committed while its session was being reaped). A suspect that killed its
-- worker again keeps its counted attempt. The claim token stays: retake finds by it the messages that have not changed since.
-- It is negative where the claim counted an attempt. No join: a row that another session has claimed since this statement
-- began is looked at again before it is locked, and an outer join would then find no session for it.
-- Locks: the rows it changes, skipping locked ones. Index: django_mq_message_claimed. Returns: the session and the id
-- of each, whether this claim counts, its attempts, how many its queue allows, and the claim.
WITH held AS MATERIALIZED (
    SELECT held.id, held.session_id, held.suspect, held.claim
    FROM django_mq_message held
    WHERE held.state = 2 AND (
        held.session_id = ANY(%(sessions)s::bigint[])
        OR NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
    FOR UPDATE SKIP LOCKED
)
UPDATE django_mq_message m
SET state = 1, redelivered = true, released_at = {now}, suspect = true, session_id = NULL, claimed_at = NULL,
    claim = CASE WHEN m.suspect THEN -m.claim ELSE m.claim END
FROM held, django_mq_queue q
WHERE m.id = ANY(ARRAY(SELECT id FROM held)) AND m.id = held.id AND q.id = m.queue_id
RETURNING held.session_id, m.id, held.suspect, m.attempts, q.max_attempts, held.claim
