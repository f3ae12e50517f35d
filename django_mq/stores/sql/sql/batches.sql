-- name: append_member. Writes a member that waits.
-- Locks: the new row. Index: none. Returns: nothing.
INSERT INTO django_mq_batchmember (id, batch_id, state, message_id, queue_name, task_id)
VALUES (%(member)s, %(batch)s, 0, %(message_id)s, %(queue)s, %(task)s)

-- name: batch_members. Finds members by their ids.
-- Locks: nothing. Index: the primary key. Returns: member, batch, state.
SELECT id, batch_id, state FROM django_mq_batchmember WHERE id {in_uuids:members}

-- name: end_members. Writes the state of members whose messages have ended.
-- Locks: the rows of the members. Index: the primary key. Returns: nothing.
UPDATE django_mq_batchmember SET state = %(state)s, ended_at = {now} WHERE id {in_uuids:members}

-- name: fail_member. Writes that a member has failed, and which message of it.
-- Locks: the row of the member. Index: the primary key. Returns: nothing.
UPDATE django_mq_batchmember
SET state = %(state)s, ended_at = {now}, message_id = %(message_id)s, queue_name = %(queue)s
WHERE id = %(member)s

-- name: reopen_members. Writes that members wait again, whose dead letters were redriven.
-- Locks: the rows of the members. Index: the primary key. Returns: nothing.
UPDATE django_mq_batchmember SET state = 0, ended_at = NULL WHERE id {in_uuids:members} AND state = 2

-- name: batch_facts. Reads what decides whether a batch may end now. The newest members are looked at first: older ones
-- have ended, and are in the way until a vacuum.
-- Locks: nothing. Index: the primary key, django_mq_batchmember_state. Returns: state, whether it is cancelled, whether
-- a callback for a failure waits, and whether more than ``near`` members wait.
SELECT b.state, b.cancelled_at IS NOT NULL, b.on_failure <> '' AND b.failure_at IS NULL,
    (SELECT m.id FROM django_mq_batchmember m WHERE m.batch_id = %(batch)s AND m.state = 0
        ORDER BY m.id DESC LIMIT 1 OFFSET %(near)s) IS NOT NULL
FROM django_mq_batch b WHERE b.id = %(batch)s

-- name: join_batch. Reads the state of a batch to which a publisher adds members. Until its transaction ends, the
-- batch is neither closed nor cancelled.
-- Locks: the row of the batch, shared. Index: the primary key. Returns: state, whether it is cancelled.
SELECT state, cancelled_at IS NOT NULL FROM django_mq_batch WHERE id = %(batch)s {for_share}

-- name: lock_batch. Locks a batch, to end it or to publish a callback: what is read afterwards is what others have
-- committed before.
-- Locks: the row of the batch. Index: the primary key. Returns: nothing.
UPDATE django_mq_batch SET locked_at = {now} WHERE id = %(batch)s

-- name: locked_batch. Reads a batch that is locked.
-- Locks: nothing. Index: the primary key, django_mq_batchmember_state. Returns: state, whether it is cancelled, whether
-- a member waits, the callbacks, and whether each was published.
SELECT b.state, b.cancelled_at IS NOT NULL,
    EXISTS (SELECT 1 FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 0),
    EXISTS (SELECT 1 FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 2),
    b.on_complete, b.complete_at IS NOT NULL, b.on_success, b.success_at IS NOT NULL, b.on_failure,
    b.failure_at IS NOT NULL
FROM django_mq_batch b WHERE b.id = %(batch)s

-- name: count_members. Counts the members of a batch.
-- Locks: nothing. Index: django_mq_batchmember_state. Returns: state, number.
SELECT state, count(*) FROM django_mq_batchmember WHERE batch_id = %(batch)s GROUP BY state

-- name: count_batch. Writes the state and the counts of a batch.
-- Locks: the row of the batch. Index: the primary key. Returns: nothing.
UPDATE django_mq_batch SET state = %(state)s, waiting = %(waiting)s, succeeded = %(succeeded)s, failed = %(failed)s,
    cancelled = %(cancelled)s, counted_at = {now},
    ended_at = CASE WHEN %(has_ended)s THEN coalesce(ended_at, {now}) ELSE NULL END
WHERE id = %(batch)s

-- name: note_callback. Writes that a callback was published; the state of a batch with a failure stays.
-- Locks: the row of the batch. Index: the primary key. Returns: nothing.
UPDATE django_mq_batch SET problem = '',
    complete_at = CASE WHEN %(callback)s = 'complete' THEN {now} ELSE complete_at END,
    success_at = CASE WHEN %(callback)s = 'success' THEN {now} ELSE success_at END,
    failure_at = CASE WHEN %(callback)s = 'failure' THEN {now} ELSE failure_at END
WHERE id = %(batch)s

-- name: note_callback_problem. Writes why a callback is not published yet.
-- Locks: the row of the batch. Index: the primary key. Returns: nothing.
UPDATE django_mq_batch SET problem = %(problem)s WHERE id = %(batch)s

-- name: batches_to_look_at. Finds the batches whose row does not say what their members say, the oldest first: live ones
-- whose counts have changed, or whose last member has ended, and those with a callback that is not published.
-- Locks: nothing. Index: django_mq_batchmember_state. Returns: the ids.
SELECT found.id FROM (
    SELECT b.id, b.state, b.created_at, b.counted_at, b.waiting, b.succeeded, b.failed, b.cancelled,
        b.problem <> '' OR b.counted_at IS NULL AS is_due,
        b.on_failure <> '' AND b.failure_at IS NULL AS awaits_failure,
        (SELECT count(*) FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 0) AS waiting_now,
        (SELECT count(*) FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 1) AS succeeded_now,
        (SELECT count(*) FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 2) AS failed_now,
        (SELECT count(*) FROM django_mq_batchmember m WHERE m.batch_id = b.id AND m.state = 3) AS cancelled_now
    FROM django_mq_batch b WHERE b.state IN ('open', 'running') OR b.problem <> ''
) found
WHERE found.is_due OR found.waiting <> found.waiting_now OR found.succeeded <> found.succeeded_now
    OR found.failed <> found.failed_now OR found.cancelled <> found.cancelled_now
    OR (found.state = 'running' AND found.waiting_now = 0) OR (found.awaits_failure AND found.failed_now > 0)
ORDER BY found.created_at LIMIT %(limit)s
