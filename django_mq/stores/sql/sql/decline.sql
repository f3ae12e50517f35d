-- name: note_declined. Remembers which messages a living session has declined.
-- Locks: the new rows. Index: the primary keys. Returns: nothing that is used.
INSERT INTO django_mq_declined (queue_id, message_id, session_id, declined_at)
SELECT m.queue_id, m.id, s.id, {now}
FROM django_mq_message m
JOIN django_mq_workersession s ON s.id = %(session)s
WHERE m.id {in:ids}

-- name: queues_of. Names the queues of messages.
-- Locks: nothing. Index: the primary keys. Returns: names.
SELECT DISTINCT q.name FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id WHERE m.id {in:ids}

-- name: declining_queues. Finds queues with declined messages, but for those that are paused.
-- Locks: nothing. Index: django_mq_declined_message, one probe per queue. Returns: id and name.
SELECT q.id, q.name FROM django_mq_queue q
WHERE NOT {paused} AND EXISTS (SELECT 1 FROM django_mq_declined d WHERE d.queue_id = q.id)

-- name: living_consumers. Reads the queues of every living session, as it was opened or renewed last.
-- Locks: nothing. Index: none, there are few sessions. Returns: the session, its queues as JSON, and the queue and the
-- selector of a consumer, null for none; a row for each consumer.
SELECT s.id, s.queues{as:text}, c.queue_name, c.selector
FROM django_mq_workersession s
LEFT JOIN django_mq_consumer c ON c.session_id = s.id
WHERE s.deadline >= {now}

-- name: declined. Reads the declines of the ready messages of a queue.
-- Locks: nothing. Index: django_mq_declined_message, the primary key of messages, and django_mq_ownership_group for
-- each message of a group. Returns: the message, the session, whether that was long enough ago, and the session that
-- owns the message's group; a message's rows are together.
SELECT d.message_id, d.session_id, CASE WHEN d.declined_at <= {ahead:since_seconds} THEN 1 ELSE 0 END, o.session_id
FROM django_mq_declined d
JOIN django_mq_message m ON m.id = d.message_id
LEFT JOIN django_mq_ownership o ON o.queue_id = d.queue_id AND o.group_key = m.group_key
WHERE d.queue_id = %(queue_id)s AND m.state + 0 = 1
ORDER BY d.message_id LIMIT %(limit)s

-- name: drop_declined. Forgets the declines of messages of a queue.
-- Locks: the rows it deletes. Index: django_mq_declined_message. Returns: nothing that is used.
DELETE FROM django_mq_declined WHERE queue_id = %(queue_id)s AND message_id {in:ids}

-- name: drop_declined_by. Forgets what sessions have declined.
-- Locks: the rows it deletes. Index: django_mq_declined_session. Returns: nothing that is used.
DELETE FROM django_mq_declined WHERE session_id {in:sessions}

-- name: prune_declined. Forgets the declines of messages that are gone.
-- Locks: the rows it deletes, skipping locked ones. Index: the primary keys. Returns: one row per deleted row.
DELETE FROM django_mq_declined WHERE id {among:
    SELECT d.id FROM django_mq_declined d
    WHERE NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = d.message_id)
    ORDER BY d.id LIMIT %(limit)s}
RETURNING id
