-- name: _readable_headers
gone.headers

-- name: _finished_row. Writes the history of a message after a verdict.
INSERT INTO django_mq_history (
    message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
    ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
SELECT gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s{as:int},
    gone.attempts - gone.suspect{as:int}, gone.published_at, {ready_at}, gone.claimed_at, {now},
    gone.session_id, gone.redelivered, gone.headers, CASE WHEN q.history_body THEN gone.body END

-- name: _removed_row. Writes the history of an unclaimed message that is removed.
INSERT INTO django_mq_history (
    message_id, queue_name, type, correlation_id, priority, outcome, attempts, published_at,
    ready_at, claimed_at, finished_at, session_id, redelivered, headers, body)
SELECT gone.message_id, q.name, gone.type, gone.correlation_id, gone.priority, %(outcome)s{as:int},
    gone.attempts, gone.published_at, {ready_at}, NULL, {now}, NULL, gone.redelivered, {readable_headers}, CASE WHEN q.history_body THEN gone.body END
