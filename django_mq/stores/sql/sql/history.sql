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

-- name: rolled_up. Reads the minutes since a time that are summed up.
-- Locks: nothing. Index: django_mq_rollup_once. Returns: the minute and the highest message id when it was summed up,
-- oldest first.
SELECT minute, newest FROM django_mq_rollup WHERE queue_name = '' AND minute >= %(since)s ORDER BY minute

-- name: take_minute. Marks a minute as summed up, unless it is marked.
-- Locks: the new row; waits for another transaction that takes the same minute. Returns: the id if it was not marked.
INSERT INTO django_mq_rollup (minute, queue_name, arrived, accepted, expired, removed, failed, newest)
VALUES (%(minute)s, '', 0, 0, 0, 0, 0, %(newest)s)
{unless_taken:minute, queue_name}
{returning:id}

-- name: sum_minute. Counts the messages of one minute by outcome, arrivals as 0, and failed attempts as -1. An
-- arrival is finished since, or is here and younger than the mark.
-- Locks: nothing. Index: django_mq_history_pruning, the message table's primary key, django_mq_attempt_pruning. With
-- each goes how many of them were deliveries of a message that had been delivered before: what is finished says so
-- itself; what failed was not the message's first attempt, or killed a worker, which counts from the second time on.
-- Returns: queue, kind, number, redeliveries among them; a queue and kind may come twice.
SELECT queue_name, outcome, count(*), count(CASE WHEN redelivered AND claimed_at IS NOT NULL THEN 1 END)
FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s
GROUP BY queue_name, outcome
UNION ALL
SELECT queue_name, 0, count(*), 0 FROM django_mq_history
WHERE finished_at >= %(start)s AND published_at >= %(start)s AND published_at < %(end)s
GROUP BY queue_name
UNION ALL
SELECT q.name, 0, count(*), 0 FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id > %(mark)s AND m.published_at >= %(start)s AND m.published_at < %(end)s
GROUP BY q.name
UNION ALL
SELECT queue_name, -1, count(*),
    count(CASE WHEN message_id IS NOT NULL AND (number > 1 OR error = %(lost)s) THEN 1 END)
FROM django_mq_attempt
WHERE failed_at >= %(start)s AND failed_at < %(end)s
GROUP BY queue_name

-- name: sample_minute. Reads when accepted messages of one minute were ready, claimed and finished.
-- Locks: nothing. Index: django_mq_history_pruning. Returns: queue and three times, of at most so many messages.
SELECT queue_name, ready_at, claimed_at, finished_at FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s AND outcome = 1 AND claimed_at IS NOT NULL
LIMIT %(limit)s

-- name: write_minute. Writes the figures of one minute of one queue.
-- Locks: the new row. Returns: nothing.
INSERT INTO django_mq_rollup (
    minute, queue_name, arrived, accepted, expired, removed, failed, redelivered, wait_p50, wait_p95, run_p50, run_p95)
VALUES (
    %(minute)s, %(queue)s, %(arrived)s, %(accepted)s, %(expired)s, %(removed)s, %(failed)s, %(redelivered)s,
    %(wait_p50)s, %(wait_p95)s, %(run_p50)s, %(run_p95)s)
