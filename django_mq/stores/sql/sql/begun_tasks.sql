-- name: begin_tasks. Keeps what is known of messages that a session holds, and that are accepted now, before they have run.
-- Locks: the new rows. Index: the primary key of django_mq_message. Returns: nothing that is used.
INSERT INTO django_mq_run (
    id, claim, session_id, queue_name, message_id, type, headers, properties, told_to, began_at)
SELECT m.id, m.claim, m.session_id, q.name, m.message_id, m.type, m.headers, m.properties, m.told_to, {now}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND m.session_id = %(session)s AND m.claim = %(claim)s

-- name: _begun_task. What is known of a run.
r.id, r.told_to, r.message_id, r.queue_name, r.type, r.headers{as:text}, r.properties{as:text}

-- name: begun_tasks. Reads runs.
-- Locks: nothing. Index: the primary key. Returns: the runs.
SELECT {begun_task} FROM django_mq_run r WHERE r.id {in:ids}

-- name: begun_of_sessions. Reads the runs of sessions, and of those that are gone: a task may begin when its session has
-- been reaped.
-- Locks: nothing. No index: the table is small. Returns: the session of each run, and the run.
SELECT r.session_id, {begun_task} FROM django_mq_run r
WHERE r.session_id {in:sessions}
   OR NOT EXISTS (SELECT 1 FROM django_mq_workersession w WHERE w.id = r.session_id)

-- name: end_task. Ends a run of a session.
-- Locks: the row it deletes. Index: the primary key. Returns: one row if there was one.
DELETE FROM django_mq_run WHERE id = %(id)s AND session_id = %(session)s
{returning:id}
