-- Remembers in the history what remove.sql is about to remove, where the queue keeps one. Headers that are no JSON,
-- written by hand, which the history would refuse, become the text of a header.
-- Locks: the database for writing. Index: the primary key.
-- Returns: nothing.
INSERT INTO django_mq_history (
    message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
    ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
SELECT
    gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s,
    gone.attempts, gone.published_at, max(coalesce(gone.deliver_at, gone.published_at), gone.published_at),
    NULL, {now}, NULL, gone.redelivered,
    CASE WHEN json_valid(gone.headers) THEN gone.headers ELSE json_object('x-damaged-headers', gone.headers) END,
    CASE WHEN q.history_body THEN gone.body END
FROM django_mq_message gone
JOIN django_mq_queue q ON q.id = gone.queue_id
WHERE gone.id IN (SELECT value FROM json_each(%(ids)s)) AND gone.state <> 2 AND q.history_days > 0
  AND (%(reason)s IS NULL OR gone.dead_reason = %(reason)s)
