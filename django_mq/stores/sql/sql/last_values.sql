-- name: set_value_key. Writes the key of a message in a last-value queue.
-- Locks: the row it changes. Index: the primary key. Returns: one row.
UPDATE django_mq_message SET value_key = %(key)s WHERE id = %(id)s {returning:id}

-- name: older_values. Finds the other messages with a key that wait or are claimed, and were not replaced.
-- Locks: the rows it returns, waiting for settlements. Index: django_mq_message_value. Returns: id and state.
SELECT id, state FROM django_mq_message {by:django_mq_message_value}
WHERE queue_id = %(queue_id)s AND value_key = %(key)s AND state < 3 AND dead_reason <> %(replaced)s AND id <> %(newest)s
{for_update}

-- name: mark_replaced. Marks claimed messages that a later value has replaced: they are removed when they come back.
-- The end of the time to live says the same to code that does not read the mark.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET dead_reason = %(replaced)s, expires_at = {now} WHERE id {in:ids} {returning:id}

-- name: held_replaced. Finds the messages of a session that a later value has replaced.
-- Locks: nothing. Index: django_mq_message_claimed. Returns: ids.
SELECT h.id FROM django_mq_message h {by:django_mq_message_claimed}
WHERE h.session_id = %(session)s AND h.state = 2 AND h.dead_reason = %(replaced)s

-- name: value_queues. Finds the last-value queues of some messages.
-- Locks: nothing. Index: the primary key. Returns: their names.
SELECT DISTINCT q.name FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND q.last_value_key <> ''

-- name: values_among. Finds the ready messages among some, and their keys in a last-value queue.
-- Locks: nothing. Index: the primary key. Returns: id, queue id and key, which may be null, in order of arrival.
SELECT id, queue_id, value_key FROM django_mq_message WHERE id {in:ids} AND state = 1 ORDER BY id

-- name: leaving. Finds the messages among some that a later value has replaced, or whose queue names an expiry queue.
-- Locks: nothing. Index: the primary key. Returns: ids, and whether a later value has replaced the message.
SELECT m.id, m.dead_reason = %(replaced)s FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND (m.dead_reason = %(replaced)s OR q.expiry_queue_id IS NOT NULL)
