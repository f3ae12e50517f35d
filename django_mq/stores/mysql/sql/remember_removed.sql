-- Remembers in the history what is about to be removed unheld, where the queue keeps one.
-- Locks: the new rows. Index: the primary key.
-- Returns: one row per message.
INSERT INTO django_mq_history (
    message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
    ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
SELECT
    gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s,
    gone.attempts, gone.published_at,
    greatest(coalesce(gone.deliver_at, gone.published_at), gone.published_at),
    NULL, {now}, NULL, gone.redelivered, gone.headers, CASE WHEN q.history_body THEN gone.body END
FROM django_mq_message gone
JOIN django_mq_queue q ON q.id = gone.queue_id
WHERE gone.id IN %(ids)s AND q.history_days > 0
ORDER BY gone.id
