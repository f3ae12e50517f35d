-- Writes messages that differ in nothing but ids and bodies, as copy_messages.sql does; the table gives their row ids.
-- Locks: nothing but the new rows. A message id that is taken is an error, a unique violation.
-- Returns: nothing.
COPY django_mq_message (
    queue_id, published_at, expires_at, level, priority, state, place, attempts, redelivered, suspect,
    dead_reason, type, correlation_id, group_key, content_type, content_encoding, headers, properties,
    message_id, body)
FROM STDIN (FORMAT BINARY)
