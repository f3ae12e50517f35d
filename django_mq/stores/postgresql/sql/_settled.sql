gone AS (
    DELETE FROM django_mq_message m
    WHERE m.id = ANY(%(ids)s::bigint[]) AND m.session_id = %(session)s
      AND ((m.id, m.claim) IN (SELECT * FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]))) IS TRUE
    RETURNING m.*
), kept AS (
    INSERT INTO django_mq_history (
        message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
        ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
    SELECT
        gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s::int,
        gone.attempts - gone.suspect::int, gone.published_at, greatest(gone.deliver_at, gone.published_at),
        gone.claimed_at, {now}, gone.session_id, gone.redelivered, gone.headers, CASE WHEN q.history_body THEN gone.body END
    FROM gone
    JOIN django_mq_queue q ON q.id = gone.queue_id
    WHERE q.history_days > 0
)
