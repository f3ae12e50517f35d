-- name: write_progress. Writes what the handler of a message has reported, unless something later is there.
-- Locks: the message's row of progress. Index: the primary key. Returns: nothing.
INSERT INTO django_mq_messageprogress (message_id, queue_name, fraction, text, attempt, reported_at)
VALUES (%(message_id)s, %(queue_name)s, %(fraction)s, %(text)s, %(attempt)s, %(reported_at)s)
ON CONFLICT (message_id) DO UPDATE SET
    queue_name = excluded.queue_name, fraction = excluded.fraction, text = excluded.text, attempt = excluded.attempt,
    reported_at = excluded.reported_at
WHERE django_mq_messageprogress.reported_at <= excluded.reported_at
