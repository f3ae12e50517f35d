-- name: open_session. Opens a worker session, or one again that was reaped, unless another has its id.
-- Locks: the new row. Returns: its id; nothing if another session has it.
INSERT INTO django_mq_workersession (
    id, name, kind, host, pid, version, queues, credit, held, started_at, heartbeat_at, deadline, conduct, given_credit)
VALUES (%(session)s, %(name)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(queues)s{as:jsonb}, %(credit)s, 0,
        {now}, {now}, {ahead:deadline_seconds}, %(conduct)s, %(given_credit)s)
{unless_taken:id}
{returning:id}

-- name: _renewed
heartbeat_at = {now}, deadline = {ahead:deadline_seconds},
    held = %(held)s, queues = %(queues)s{as:jsonb}, credit = %(credit)s,
    busy = %(busy)s, slots = %(slots)s, memory_bytes = %(memory_bytes)s, running = %(running)s{as:jsonb}

-- name: _has_stops. Whether a session is asked to stop something.
EXISTS (SELECT 1 FROM django_mq_stoprequest r WHERE r.session_id = %(session)s)

-- name: renew. Moves a session's deadline.
-- Locks: the session's row. Index: the primary key, django_mq_stop_session. Returns: the id, what it is told to do, and
-- whether it is asked to stop something; no row when the session was reaped.
UPDATE django_mq_workersession SET {renewed} WHERE id = %(session)s {returning:id, conduct, given_credit, {has_stops}}

-- name: send_command. Writes a worker command for a session; null changes nothing, credit 0 is none.
-- Locks: the session's row. Index: the primary key. Returns: one row; none when there is no such session.
UPDATE django_mq_workersession
SET conduct = coalesce(%(conduct)s{as:text}, conduct),
    given_credit = CASE WHEN %(credit)s{as:int} IS NULL THEN given_credit ELSE nullif(%(credit)s{as:int}, 0) END
WHERE id = %(session)s
{returning:id}

-- name: holders. Finds the living sessions that hold messages.
-- Locks: nothing. Index: the primary keys. Returns: the session, the id and the claim of each.
SELECT m.session_id, m.id, m.claim
FROM django_mq_message m
JOIN django_mq_workersession s ON s.id = m.session_id
WHERE m.id {in:ids} AND m.state = 2

-- name: add_stop. Asks a session to stop a message. It does not touch the row of the session, which is renewed while
-- the transaction of an operator is open.
-- Locks: the new row. Returns: nothing.
INSERT INTO django_mq_stoprequest (session_id, message_id, claim, asked_at)
VALUES (%(session)s, %(message)s, %(claim)s, {now})

-- name: living. Finds the sessions, of some, that have not ended.
-- Locks: nothing. Index: the primary key. Returns: their ids.
SELECT id FROM django_mq_workersession WHERE id {in:sessions}

-- name: stops. Reads what sessions are asked to stop.
-- Locks: nothing. Index: django_mq_stop_session. Returns: the session, the message and the claim of each.
SELECT session_id, message_id, claim FROM django_mq_stoprequest WHERE session_id {in:sessions}

-- name: forget_stops. Forgets that a session is asked to stop messages.
-- Locks: the rows it deletes. Index: django_mq_stop_session. Returns: nothing that is used.
DELETE FROM django_mq_stoprequest WHERE session_id = %(session)s AND message_id {in:ids}

-- name: _still_held. Whether a message is held by the session that is asked to stop it: a transaction has locked the
-- row, and the next reaper gives it back.
EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = django_mq_stoprequest.message_id AND m.state = 2
          AND m.session_id = django_mq_stoprequest.session_id)

-- name: drop_stops. Deletes what sessions are asked to stop and do not hold.
-- Locks: the rows it deletes. Index: django_mq_stop_session, the primary key of messages. Returns: nothing that is used.
DELETE FROM django_mq_stoprequest WHERE session_id {in:sessions} AND NOT {still_held}

-- name: prune_stops. Forgets requests to sessions that have ended while the requests were written.
-- Locks: the rows it deletes, skipping locked ones. Index: the primary keys. Returns: one row per deleted row.
DELETE FROM django_mq_stoprequest WHERE id {among:
    SELECT django_mq_stoprequest.id FROM django_mq_stoprequest
    WHERE NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = django_mq_stoprequest.session_id)
      AND NOT {still_held}
    ORDER BY django_mq_stoprequest.id LIMIT %(limit)s}
RETURNING id

-- name: free_slots. Counts the free slots of other living sessions that consume some queues, as of their last
-- heartbeats.
-- Locks: nothing. Index: none, there are few consumers. Returns: the queue, the session, how many, and the selector; a
-- row for each consumer of a session that has some.
SELECT c.queue_name, s.id, s.slots - s.busy, c.selector
FROM django_mq_consumer c
JOIN django_mq_workersession s ON s.id = c.session_id
WHERE c.queue_name {in_texts:queues} AND s.id <> %(session)s AND s.deadline >= {now} AND s.conduct = 'work'
  AND s.slots > s.busy AND c.state <> 'stopping'

-- name: prolong. Moves the deadline of a session that has not passed it, in place of its worker.
-- Locks: the session's row. Index: the primary key. Returns: one row; none when the session is given up.
UPDATE django_mq_workersession SET deadline = {ahead:deadline_seconds}
WHERE id = %(session)s AND deadline >= {now}
{returning:id}

-- name: older. Asks whether an older session lives and is renewed by its own worker.
-- Locks: nothing. Index: the primary key. Returns: one row if so.
SELECT 1 FROM django_mq_workersession
WHERE id < %(session)s AND deadline >= {now} AND heartbeat_at >= {ahead:silent_seconds}
LIMIT 1

-- name: add_consumer. Shows one consumer of a session.
-- Locks: the new row. Returns: nothing.
INSERT INTO django_mq_consumer (
    session_id, queue_name, handler, priority, state, credit_limit, credit_used, delivered, selector)
VALUES (%(session)s, %(queue_name)s, %(handler)s, %(priority)s, %(state)s, %(credit_limit)s,
        %(credit_used)s, %(delivered)s, %(selector)s)

-- name: drop_consumers. Deletes the consumers of sessions.
-- Locks: their rows. Index: the foreign key to the session. Returns: nothing that is used.
DELETE FROM django_mq_consumer WHERE session_id {in:sessions}

-- name: release_session. Gives back, uncounted, all messages of a session.
-- Locks: the rows it changes. Index: django_mq_message_claimed. Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect{as:int}, redelivered = true, released_at = {now},
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE state = 2 AND session_id = %(session)s
{returning:id}

-- name: lock_expired_sessions. Finds the sessions whose deadline has passed, but for the one in whose name this is
-- asked. A database that has just started gives all sessions one deadline of grace: they could not renew while it was
-- down.
-- Locks: the sessions' rows, skipping those that another reaper or a renewal holds. Index: django_mq_session_deadline.
-- Returns: id and name.
SELECT id, name FROM django_mq_workersession
WHERE deadline < {now} AND id <> %(spare)s AND {past_grace}
ORDER BY id {skip_locked}

-- name: drop_ownerships. Deletes the groups and consumer slots of sessions.
-- Locks: the rows it deletes. Index: django_mq_ownership_session. Returns: nothing that is used.
DELETE FROM django_mq_ownership WHERE session_id {in:sessions}

-- name: lost_owners. Finds deleted sessions that own groups or slots: a claim was committed while its session was
-- being reaped.
-- Locks: nothing, so that it waits for no claim. Index: none; the table holds what living sessions own. Returns: their
-- ids.
SELECT DISTINCT o.session_id
FROM django_mq_ownership o
LEFT JOIN django_mq_workersession s ON s.id = o.session_id
WHERE s.id IS NULL

-- name: drop_sessions. Deletes sessions; drop_consumers has run.
-- Locks: their rows. Index: the primary key. Returns: nothing that is used.
DELETE FROM django_mq_workersession WHERE id {in:sessions}
