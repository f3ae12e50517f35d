-- name: _claimed_columns
m.id, %(claim)s, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), m.level, m.place, m.priority,
m.attempts, m.redelivered, m.suspect, coalesce(m.expires_at <= {now}, false), m.message_id, m.type,
m.correlation_id, m.group_key, m.published_at, m.deliver_at, m.expires_at, m.content_type,
m.content_encoding, m.headers, m.properties, m.told_to,
CASE WHEN octet_length(m.body) <= %(share_bytes)s THEN m.body END, octet_length(m.body)

-- name: next_due. Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue. Returns: seconds until it is due, or null.
SELECT timestampdiff(MICROSECOND, {now}, min(due.deliver_at)) / 1e6
FROM (
    SELECT (
        SELECT d.deliver_at FROM django_mq_message d FORCE INDEX (django_mq_message_due)
        WHERE d.queue_id = q.id AND d.state = 0
        ORDER BY d.deliver_at LIMIT 1
    ) AS deliver_at
    FROM django_mq_queue q
    WHERE q.name IN %(queues)s
) due

-- name: due_queues. Asks which queues have messages that are due.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue. Returns: ids of queues.
SELECT q.id FROM django_mq_queue q
WHERE (%(every)s OR q.name IN %(queues)s) AND EXISTS (
    SELECT 1 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
    WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} AND NOT {early})

-- name: lock_due. Locks the due messages of one queue, earliest first.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_due. Returns: ids.
SELECT d.id FROM django_mq_message d FORCE INDEX (django_mq_message_due)
WHERE d.queue_id = %(queue_id)s AND d.state = 0 AND d.deliver_at <= {now} AND NOT {early}
ORDER BY d.deliver_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: claim. Locks the first ready messages of one queue, unless the queue is paused; lease takes them.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_ready. Returns: the messages, in delivery
-- order, and their sizes; a body of more than its share is left out.
SELECT {claimed_columns}
FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
WHERE m.state = 1
  AND m.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) {wanted}
ORDER BY m.level DESC, m.place, m.id LIMIT %(credit)s FOR UPDATE SKIP LOCKED

-- name: candidates. Reads the first ready messages of a queue that is not paused; lock_chosen locks the best of all.
-- Locks: nothing. Index: django_mq_message_ready. Returns: id and priority, in delivery order.
SELECT m.id, m.priority
FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
WHERE m.state = 1
  AND m.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) {wanted}
ORDER BY m.level DESC, m.place, m.id LIMIT %(candidates)s

-- name: lock_chosen. Locks and reads those of the chosen messages that are still ready; lease takes them.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: the messages, in no order, and
-- their sizes; a body of more than its share is left out.
SELECT {claimed_columns} FROM django_mq_message m WHERE m.id IN %(ids)s AND m.state = 1 FOR UPDATE SKIP LOCKED

-- name: bodies. Reads bodies that a claim has left out.
-- Locks: nothing; the messages are locked. Index: the primary key. Returns: ids and bodies.
SELECT id, body FROM django_mq_message WHERE id IN %(ids)s

-- name: lock_claims. Makes claimers of a queue with rules wait for each other.
-- Locks: the queue's claim lock, until the transaction ends. Index: the primary key. Returns: nothing that is used.
INSERT INTO django_mq_turn (queue_id)
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON DUPLICATE KEY UPDATE django_mq_turn.queue_id = django_mq_turn.queue_id

-- name: _redelivered
w.redelivered = true

-- name: _next_due_microseconds
(SELECT timestampdiff(MICROSECOND, {now}, d.deliver_at)
 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)

-- name: own_chosen. Gives a session what becomes its own with messages: a slot in their queue, or their group.
-- Locks: the new rows. Index: the primary key. Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
SELECT DISTINCT m.queue_id, CASE WHEN given.by_group THEN m.group_key END, %(session)s
FROM json_table(%(owned)s, '$[*]' COLUMNS (id bigint PATH '$[0]', by_group boolean PATH '$[1]')) given
JOIN django_mq_message m ON m.id = given.id
