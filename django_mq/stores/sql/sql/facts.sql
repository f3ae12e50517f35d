-- Reads what the arbiter must know of one queue, and the first page of its ready messages, of none while it is paused.
-- What costs something is read only where the queue's options, or its consumers' priorities, ask for it.
-- Locks: nothing; the claim lock is held. Index: the queue's unique name, django_mq_message_ready for the page,
-- django_mq_message_claimed and _retrying, and django_mq_ownership_group for the slots and each message of a group.
-- Returns: rows of a kind, seven numbers and a text:
-- 0: whether the session lives, and microseconds until the next message is due, null for none.
-- 1: the queue: id, strict, exclusive, max_in_flight, max_consumers, how many are claimed; its grouping.
-- 2: a live session that has a slot.
-- 3: a group of which a message is claimed, or has failed and waits for its next attempt.
-- 4: a consumer, where their priorities differ, in a live session or the asking one, as of the last heartbeat: session, priority,
-- credit (0 is no limit), what is used of it for all queues of the session together, if they share it, whether it is stopping,
-- how many messages of this queue the session holds, and whether all that it can handle at a time is being handled.
-- 5: a ready message, as page.sql returns it.
SELECT 0 AS kind, CASE WHEN EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = %(session)s) THEN 1 ELSE 0 END AS a,
    {next_due_microseconds} AS b, 0 AS c, 0 AS d, 0 AS e, 0 AS f, 0 AS g, '' AS word
UNION ALL
SELECT 1, q.id, CASE WHEN q.strict THEN 1 ELSE 0 END, CASE WHEN q.exclusive THEN 1 ELSE 0 END, q.max_in_flight, q.max_consumers,
    CASE WHEN q.max_in_flight IS NULL THEN 0 ELSE (
        SELECT count(*) FROM django_mq_message h {by_state} WHERE h.queue_id = q.id AND h.state = 2) END,
    0, q.group_rule
FROM django_mq_queue q
WHERE q.name = %(queue)s
UNION ALL
SELECT 2, o.session_id, 0, 0, 0, 0, 0, 0, ''
FROM django_mq_ownership o
JOIN django_mq_workersession s ON s.id = o.session_id
WHERE o.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND o.group_key IS NULL
UNION ALL
SELECT 3, 0, 0, 0, 0, 0, 0, 0, h.group_key
FROM django_mq_message h {by_state}
WHERE h.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND q.group_rule <> 'none')
  AND h.state = 2 AND h.group_key IS NOT NULL
UNION ALL
SELECT 3, 0, 0, 0, 0, 0, 0, 0, w.group_key
FROM django_mq_message w
WHERE w.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND q.group_rule <> 'none')
  AND w.state = 0 AND {redelivered} AND w.group_key IS NOT NULL
UNION ALL
SELECT 4, c.session_id, c.priority, c.credit_limit, CASE WHEN s.kind = 'celery' THEN c.credit_used ELSE 0 END,
    CASE WHEN c.state = 'stopping' THEN 1 ELSE 0 END,
    (SELECT count(*) FROM django_mq_message h {by_session}
     WHERE h.state = 2 AND h.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s)
       AND h.session_id = c.session_id),
    CASE WHEN s.busy >= s.slots THEN 1 ELSE 0 END, ''
FROM django_mq_consumer c
JOIN django_mq_workersession s ON s.id = c.session_id AND (s.deadline > {now} OR s.id = %(session)s)
WHERE c.queue_name = %(queue)s
  AND EXISTS (SELECT 1 FROM django_mq_consumer other WHERE other.queue_name = %(queue)s AND other.priority <> c.priority)
UNION ALL
SELECT 5, page.*
FROM (
    SELECT {candidate}
    FROM django_mq_message m {by_state}
    WHERE m.state = 1 AND m.queue_id = (
        SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT {paused})
    ORDER BY m.level DESC, m.place, m.id
    LIMIT %(limit)s
) page
