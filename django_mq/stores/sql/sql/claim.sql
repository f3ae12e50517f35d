-- name: _size_bytes
octet_length(m.body)

-- name: lease. Leases the locked messages to a session. A suspect's attempt is counted here, at its claim.
-- Locks: the rows it changes. Index: the primary key. Returns: nothing that is used.
UPDATE django_mq_message
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now}, attempts = attempts + suspect{as:int}
WHERE id {in:ids}

-- name: session_alive. Asks whether a session still exists.
-- Locks: nothing. Index: the primary key. Returns: one row if it does.
SELECT 1 FROM django_mq_workersession WHERE id = %(session)s

-- name: _candidate. A ready message as the arbiter sees it: id, priority, whether it is suspect, level, place, size,
-- the live session that its group belongs to, and the group.
m.id, m.priority, CASE WHEN m.suspect THEN 1 ELSE 0 END AS suspect, m.level, m.place, {size_bytes} AS size_bytes,
(SELECT o.session_id
 FROM django_mq_ownership o
 JOIN django_mq_workersession s ON s.id = o.session_id
 WHERE o.queue_id = m.queue_id AND o.group_key = m.group_key
 LIMIT 1) AS owner, m.group_key

-- name: _redelivered
w.redelivered

-- name: _first_page
SELECT {candidate}
FROM django_mq_message m {by:django_mq_message_ready}
WHERE m.state = 1 AND m.queue_id = (
    SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused}) {wanted}
ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s

-- name: facts
-- Reads the facts of one queue for the arbiter, and the first page of its ready messages, or no message while it is
-- paused. Expensive facts are read only if the queue's options, or its consumers' priorities, need them.
-- Locks: nothing; the claim lock is held. Index: the queue's unique name, django_mq_message_ready for the page,
-- django_mq_message_claimed, _retrying, _due and _waking, django_mq_ownership_group for the slots and each message of a group, and
-- django_mq_declined_message.
-- Returns: rows of a kind, seven numbers and a text:
-- 0: whether the session lives, and microseconds until the next message is due, and until the next parked one is to be
-- freed, null for none.
-- 1: the queue: id, strict, exclusive, max_in_flight, max_consumers, how many are claimed, whether it is paused; its grouping.
-- 2: a live session that has a slot.
-- 3: a group with a message that is claimed, and the session that has it, or null for a message that has failed and
-- waits for its next attempt.
-- 4: a consumer, where their priorities differ, in a live session or the asking one, as of the last heartbeat: session, priority,
-- credit (0 is no limit), how much of it all queues of the session use together, if they share it, whether it is stopping,
-- how many messages of this queue the session holds, and whether it handles as many as it can at a time; its selector.
-- 5: a ready message, as page returns it.
-- 6: a message, and a session that has declined it.
SELECT 0 AS kind, CASE WHEN EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = %(session)s) THEN 1 ELSE 0 END AS a,
    {next_due_microseconds} AS b, {next_woken_microseconds} AS c, 0 AS d, 0 AS e, 0 AS f, 0 AS g, '' AS word
UNION ALL
SELECT 1, q.id, CASE WHEN q.strict THEN 1 ELSE 0 END, CASE WHEN q.exclusive THEN 1 ELSE 0 END, q.max_in_flight, q.max_consumers,
    CASE WHEN q.max_in_flight IS NULL THEN 0 ELSE (
        SELECT count(*) FROM django_mq_message h {by:django_mq_message_ready} WHERE h.queue_id = q.id AND h.state = 2) END,
    CASE WHEN {paused} THEN 1 ELSE 0 END, q.group_rule
FROM django_mq_queue q
WHERE q.name = %(queue)s
UNION ALL
SELECT 2, o.session_id, 0, 0, 0, 0, 0, 0, ''
FROM django_mq_ownership o
JOIN django_mq_workersession s ON s.id = o.session_id
WHERE o.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND o.group_key IS NULL
UNION ALL
SELECT 3, h.session_id, 0, 0, 0, 0, 0, 0, h.group_key
FROM django_mq_message h {by:django_mq_message_ready}
WHERE h.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND q.group_rule <> 'none')
  AND h.state = 2 AND h.group_key IS NOT NULL
UNION ALL
SELECT 3, NULL, 0, 0, 0, 0, 0, 0, w.group_key
FROM django_mq_message w
WHERE w.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND q.group_rule <> 'none')
  AND w.state = 0 AND {redelivered} AND w.group_key IS NOT NULL
UNION ALL
SELECT 4, c.session_id, c.priority, c.credit_limit, CASE WHEN s.kind = 'celery' THEN c.credit_used ELSE 0 END,
    CASE WHEN c.state = 'stopping' THEN 1 ELSE 0 END,
    (SELECT count(*) FROM django_mq_message h {by:django_mq_message_claimed}
     WHERE h.state = 2 AND h.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s)
       AND h.session_id = c.session_id),
    CASE WHEN s.busy >= s.slots THEN 1 ELSE 0 END, c.selector
FROM django_mq_consumer c
JOIN django_mq_workersession s ON s.id = c.session_id AND (s.deadline > {now} OR s.id = %(session)s)
WHERE c.queue_name = %(queue)s
  AND EXISTS (SELECT 1 FROM django_mq_consumer other WHERE other.queue_name = %(queue)s AND other.priority <> c.priority)
UNION ALL
SELECT 5, page.*
FROM (
    {first_page}
) page
UNION ALL
SELECT 6, d.message_id, d.session_id, 0, 0, 0, 0, 0, ''
FROM django_mq_declined d
WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s)

-- name: page. Reads a further page of a queue's ready messages in delivery order, without some groups.
-- Locks: nothing; the claim lock is held. Index: django_mq_message_ready, and django_mq_ownership_group for each
-- message. Returns: id, priority, whether it is suspect, level, place, size, the live session that its group belongs
-- to, and the group.
SELECT {candidate}
FROM django_mq_message m {by:django_mq_message_ready}
WHERE m.state = 1 AND m.queue_id = %(queue_id)s
  AND m.level <= %(level)s AND (m.level < %(level)s OR (m.place, m.id) > (%(place)s, %(after)s)) AND {in_other_groups} {wanted}
ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s

-- name: described. Reads what selectors ask of some messages.
-- Locks: nothing. Index: the primary key. Returns: id, message id, type, correlation id, priority, size, headers, and
-- the times of publication, delivery and expiry.
SELECT m.id, m.message_id, m.type, m.correlation_id, m.priority, {size_bytes}, m.headers{as:text}, m.published_at,
    m.deliver_at, m.expires_at
FROM django_mq_message m
WHERE m.id {in:ids}

-- name: bodies_to_limit. Reads the bodies of some messages, for limits whose key is in the body.
-- Locks: nothing. Index: the primary key. Returns: id, content type and body.
SELECT m.id, m.content_type, m.body FROM django_mq_message m WHERE m.id {in:ids}

-- name: own. Gives a session a slot in a queue; it has none.
-- Locks: the new row. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_ownership (queue_id, session_id) VALUES (%(queue_id)s, %(session)s)

-- name: take_over. Gives groups of a queue to a session, in place of their owners.
-- Locks: the rows it changes; the claim lock is held. Index: django_mq_ownership_group. Returns: nothing that is used.
UPDATE django_mq_ownership SET session_id = %(session)s WHERE queue_id = %(queue_id)s AND group_key {in_groups}
