-- Reads the waiting messages, scheduled or ready, of some message ids, given as hex digits.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: the columns of WaitingMessage.
SELECT m.id, q.name, m.message_id, m.content_type, m.content_encoding, m.headers, m.properties, m.body
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.message_id IN (SELECT value FROM json_each(%(message_ids)s)) AND m.state IN (0, 1)
