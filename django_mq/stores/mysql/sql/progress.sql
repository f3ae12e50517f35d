-- name: write_progress. Writes what the handler of a message has reported, unless something later is there. The time is
-- set last: the other columns read the old one.
-- Locks: the message's row of progress. Index: the primary key. Returns: one row, or two where it replaces one.
INSERT INTO django_mq_messageprogress (message_id, queue_name, fraction, text, attempt, reported_at)
VALUES (%(message_id)s, %(queue_name)s, %(fraction)s, %(text)s, %(attempt)s, %(reported_at)s)
ON DUPLICATE KEY UPDATE
    queue_name = if(reported_at <= VALUES(reported_at), VALUES(queue_name), queue_name),
    fraction = if(reported_at <= VALUES(reported_at), VALUES(fraction), fraction),
    text = if(reported_at <= VALUES(reported_at), VALUES(text), text),
    attempt = if(reported_at <= VALUES(reported_at), VALUES(attempt), attempt),
    reported_at = greatest(reported_at, VALUES(reported_at))
