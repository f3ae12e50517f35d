-- Copies one locked message to the tail of another queue, attempts restarting; drop_messages.sql
-- removes what it was. A message id that is there already is an error.
-- Locks: the new row, and for sharing the queue's entry in the index of names, see append.sql.
-- Index: the primary key.
-- Returns: the new id; no row if it is in that queue already.
INSERT INTO django_mq_message (
    queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, published_at, deliver_at, expires_at, dead_reason, content_type,
    content_encoding, headers, properties, body)
SELECT
    q.id, CASE WHEN n.state = 0 THEN 0 ELSE 1 END, {level}, CASE WHEN n.state = 0 THEN {place} ELSE 0 END,
    n.priority, 0, n.redelivered, false, n.message_id, n.type, n.correlation_id, n.group_key,
    n.published_at, CASE WHEN n.state = 0 THEN n.deliver_at END, n.expires_at, '', n.content_type,
    n.content_encoding, n.headers, n.properties, n.body
FROM django_mq_message n
JOIN django_mq_queue q ON q.name = %(target)s AND q.id <> n.queue_id
WHERE n.id = %(id)s
  AND q.id = (SELECT held.id FROM django_mq_queue held WHERE held.name = %(target)s LOCK IN SHARE MODE)
