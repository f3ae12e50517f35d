-- Reads the waiting messages, scheduled or ready, that carry one of some correlation ids.
-- Locks: nothing. Index: django_mq_message_corr.
-- Returns: the columns of WaitingMessage.
SELECT m.id, q.name, m.message_id, m.content_type, m.content_encoding, m.headers::text, m.properties::text, m.body
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.correlation_id = ANY(%(correlation_ids)s::text[]) AND m.state IN (0, 1)
