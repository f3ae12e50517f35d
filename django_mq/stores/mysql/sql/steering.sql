-- name: _headers_without
json_remove(headers, concat('$."', %(name)s, '"'))

-- name: _headers_with_number
json_set(headers, concat('$."', %(name)s, '"'), %(value)s)

-- name: lock_unheld. Locks unclaimed messages of some states, all or those with a reason.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: id and priority, in delivery order
-- of each queue.
SELECT id, priority FROM django_mq_message
WHERE id IN %(ids)s AND state IN %(states)s AND (%(reason)s IS NULL OR dead_reason = %(reason)s)
ORDER BY level DESC, place, id FOR UPDATE SKIP LOCKED

-- name: lock_to_change. Locks messages of some states, which a statement then changes: it would not say which.
-- Locks: the rows it returns. Index: the primary key. Returns: ids.
SELECT id FROM django_mq_message
WHERE id IN %(ids)s AND state IN %(states)s AND (NOT %(timed)s OR value_key IS NULL)
ORDER BY id FOR UPDATE

-- name: find_unheld. Finds a chunk of unclaimed messages of a queue, dead ones if asked, none newer than an id.
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state. Returns: ids.
{unheld_in_state:1} UNION ALL {unheld_in_state:0} UNION ALL {unheld_in_state:7} UNION ALL {unheld_in_state:3} LIMIT %(limit)s

-- name: _unheld_in_state
(SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE ({it} <> 3 OR %(dead)s) AND m.state = {it} AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
   AND m.id <= %(newest)s LIMIT %(limit)s)

-- name: reschedule. Gives scheduled or ready messages another time of delivery; a past time makes them ready.
-- A value of a last-value queue keeps its time.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
CROSS JOIN (SELECT {at:deliver_at} AS deliver_at) n
SET m.state = CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END, m.deliver_at = n.deliver_at, m.place = {place_again}
WHERE m.id IN %(ids)s AND m.state < 2 AND m.value_key IS NULL

-- name: stand_aside. Takes locked messages out of their queue for a moment: as many copies may be written there.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET queue_id = -queue_id WHERE id IN %(ids)s

-- name: prioritise. Copies messages that stand aside, with another priority, to the tail of their new level: each
-- becomes a new arrival. They arrive in their old order.
-- Locks: the new rows. Index: the primary key. Returns: one row per message.
{copy_with_priority}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = -m.queue_id
CROSS JOIN (SELECT %(priority)s AS priority) n
WHERE m.id IN %(ids)s
ORDER BY m.level DESC, m.place, m.id

-- name: arrive_again. Copies a scheduled message that stands aside as a new arrival; drop_messages removes what it was.
-- Locks: the new row. Index: the primary key. Returns: the new id.
{copy_with_priority}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = -m.queue_id
CROSS JOIN (SELECT priority FROM django_mq_message WHERE id = %(id)s) n
WHERE m.id = %(id)s

-- name: move. Copies one locked message to the tail of another queue, attempts restarting; drop_messages removes what
-- it was. A message id that is there already is an error.
-- Locks: the new row, and for sharing the queue's entry in the index of names, see stays. Index: the primary key.
-- Returns: the new id; no row if it is in that queue already.
{copy_to_tail}
FROM django_mq_message n
JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
WHERE n.id = %(id)s {stays:target}

-- name: _given_headers
%(headers)s, %(properties)s

-- name: _given_cause
%(cause)s

-- name: copy_dead. Copies one dead message into a queue, with other headers, properties and reason; drop_messages removes
-- what it was. A message id that is there already is an error.
-- Locks: the new row, and for sharing the queue's entry in the index of names, see stays. Index: the primary key.
-- Returns: the new id; no row if there is no such queue, or it is closed.
{copy_dead}
FROM django_mq_message n
JOIN django_mq_queue q ON q.name = %(target)s AND NOT q.closed
WHERE n.id = %(id)s AND n.dead_at IS NOT NULL {stays:target}
