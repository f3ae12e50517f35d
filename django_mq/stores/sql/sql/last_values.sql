-- name: set_value_key. Writes the key of a message in a last-value queue.
-- Locks: the row it changes. Index: the primary key. Returns: one row.
UPDATE django_mq_message SET value_key = %(key)s WHERE id = %(id)s {returning:id}

-- name: _early. Whether a scheduled message d is a value that was published for a later time. A failed one that waits
-- for its next attempt is none. Written so that it does not invite the planner to the index of values.
(coalesce(d.value_key, d.value_key) IS NOT NULL AND NOT d.redelivered)

-- name: due_values. Finds the values that were published for a time that has come, in the named queues or in all.
-- Locks: nothing. Index: django_mq_message_due. Returns: queue, its id, and id, the earliest first.
SELECT q.name, q.id, d.id
FROM django_mq_queue q
CROSS JOIN django_mq_message d {by:django_mq_message_due}
WHERE q.last_value_key <> '' AND (%(every)s OR q.name {in_texts:queues})
  AND d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} AND {early}
ORDER BY d.deliver_at, d.id LIMIT %(limit)s

-- name: make_ready. Makes scheduled messages ready.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET state = 1 WHERE id {in:ids} {returning:id}

-- name: older_values. Finds the other messages with a key that wait, are parked or claimed, and were not replaced. Of those that
-- were published for a later time and have not arrived, none, or those that are due.
-- Locks: the rows it returns, waiting for settlements. Index: django_mq_message_value. Returns: id and state.
SELECT id, state FROM django_mq_message {by:django_mq_message_value}
WHERE queue_id = %(queue_id)s AND value_key = %(key)s AND (state < 3 OR state = 7) AND dead_reason <> %(replaced)s AND id <> %(newest)s
  AND (state > 0 OR redelivered OR (%(due)s AND deliver_at <= {now}))
{for_update}

-- name: mark_replaced. Marks claimed messages that a later value has replaced: they are removed when they come back.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET dead_reason = %(replaced)s WHERE id {in:ids} {returning:id}

-- name: end_replaced. Ends the time to live of a session's messages that a later value has replaced: they expire as
-- soon as they come back.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET expires_at = {now}
WHERE id {in:ids} AND session_id + 0 = %(session)s AND dead_reason = %(replaced)s
{returning:id}

-- name: held_replaced. Finds the messages of a session that a later value has replaced.
-- Locks: nothing. Index: django_mq_message_claimed. Returns: ids.
SELECT h.id FROM django_mq_message h {by:django_mq_message_claimed}
WHERE h.session_id = %(session)s AND h.state = 2 AND h.dead_reason = %(replaced)s

-- name: value_queues. Finds the last-value queues of some messages.
-- Locks: nothing. Index: the primary key. Returns: their names.
SELECT DISTINCT q.name FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND q.last_value_key <> ''

-- name: values_among. Finds the messages in a state among some, and their keys in a last-value queue.
-- Locks: nothing. Index: the primary key. Returns: id, queue id and key, which may be null, in order of arrival.
SELECT id, queue_id, value_key FROM django_mq_message WHERE id {in:ids} AND state = %(state)s ORDER BY id

-- name: leaving. Finds the messages among some that a later value has replaced, or whose queue sends expired ones somewhere.
-- Locks: nothing. Index: the primary key. Returns: ids, and whether a later value has replaced the message.
SELECT m.id, m.dead_reason = %(replaced)s FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND (m.dead_reason = %(replaced)s OR {sends_expired})
