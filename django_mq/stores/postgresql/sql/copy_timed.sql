-- Writes messages that differ in nothing but times, ids and bodies, as copy_alike.sql does; copying.py decides of each
-- whether it is due by now, and its place.
-- Locks: nothing but the new rows. A message id that is taken is an error, a unique violation.
-- Returns: nothing.
COPY django_mq_message (
    queue_id, published_at, level, priority, attempts, redelivered, suspect, dead_reason,
    type, correlation_id, group_key, content_type, content_encoding, headers, properties,
    state, place, deliver_at, expires_at, message_id, body)
FROM STDIN (FORMAT BINARY)
