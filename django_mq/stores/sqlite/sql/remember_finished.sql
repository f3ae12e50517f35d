-- Remembers in the history what settle_finished.sql is about to remove, where the queue keeps one.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token.
-- Returns: nothing.
INSERT INTO django_mq_history (
    message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
    ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
SELECT
    gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s,
    gone.attempts - gone.suspect, gone.published_at,
    max(coalesce(gone.deliver_at, gone.published_at), gone.published_at),
    gone.claimed_at, {now}, gone.session_id, gone.redelivered, gone.headers, CASE WHEN q.history_body THEN gone.body END
{held}
CROSS JOIN django_mq_queue q ON q.id = gone.queue_id AND q.history_days > 0
