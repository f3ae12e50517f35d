-- Removes unheld messages, all or those with a reason, and remembers them in the history, where the queue keeps one.
-- Locks: the rows it removes, skipping locked ones. Index: the primary key.
-- Returns: the ids that went.
WITH gone AS (
    DELETE FROM django_mq_message
    WHERE id = ANY(ARRAY(
        SELECT id FROM django_mq_message
        WHERE id = ANY(%(ids)s::bigint[]) AND state <> 2 AND (%(reason)s::text IS NULL OR dead_reason = %(reason)s)
        FOR UPDATE SKIP LOCKED))
    RETURNING *
), kept AS (
    INSERT INTO django_mq_history (
        message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
        ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
    SELECT
        gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s::int,
        gone.attempts, gone.published_at, greatest(gone.deliver_at, gone.published_at),
        NULL, {now}, NULL, gone.redelivered, gone.headers, CASE WHEN q.history_body THEN gone.body END
    FROM gone
    JOIN django_mq_queue q ON q.id = gone.queue_id
    WHERE q.history_days > 0
)
SELECT id FROM gone
