-- Reads the waiting messages, scheduled or ready, of some message ids, given as hex digits.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: the columns of WaitingMessage.
SELECT m.id, q.name, m.message_id, m.content_type, m.content_encoding, m.headers::text, m.properties::text, m.body
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.message_id = ANY(%(message_ids)s::text[]::uuid[]) AND m.state IN (0, 1)
