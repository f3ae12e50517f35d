-- name: rolled_up. Reads the minutes since a time that are summed up.
-- Locks: nothing. Index: django_mq_rollupstep_once. Returns: the minute, the highest message id when it was summed up,
-- and how many rows of the past it was summed up from; oldest first.
SELECT begins_at, newest, counted FROM django_mq_rollupstep
WHERE seconds = 60 AND queue_name = '' AND begins_at >= %(since)s ORDER BY begins_at

-- name: rolled_up_before. Looks for the last minute before a time that is summed up.
-- Locks: nothing. Index: django_mq_rollupstep_once. Returns: the minute, or NULL.
SELECT max(begins_at) FROM django_mq_rollupstep WHERE seconds = 60 AND begins_at < %(before)s

-- name: count_minute. Counts the rows of the past of a minute.
-- Locks: nothing. Index: django_mq_history_pruning and django_mq_attempt_pruning, which are enough. Returns: a number.
SELECT (SELECT count(*) FROM django_mq_history WHERE finished_at >= %(start)s AND finished_at < %(end)s)
     + (SELECT count(*) FROM django_mq_attempt WHERE failed_at >= %(start)s AND failed_at < %(end)s)

-- name: _is_accepted
outcome = 1 AND claimed_at IS NOT NULL

-- name: sum_ended. Counts the messages that ended in a minute by queue, type, outcome, and the bucket of their wait.
-- Locks: nothing. Index: django_mq_history_pruning. Returns: queue, type, outcome, bucket of the wait (of accepted
-- messages), number, how many of them were published in the minute and how many redelivered, and the sum of the waits in
-- milliseconds.
SELECT queue_name, type, outcome, CASE WHEN {is_accepted} THEN {bucket:{wait_ms}} END AS waited, count(*),
    count(CASE WHEN published_at >= %(start)s AND published_at < %(end)s THEN 1 END),
    count(CASE WHEN redelivered AND claimed_at IS NOT NULL THEN 1 END), sum(CASE WHEN {is_accepted} THEN {wait_ms} END)
FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s
GROUP BY queue_name, type, outcome, waited

-- name: sum_runs. Counts the messages that were accepted in a minute by queue, type, and the bucket of their run. A
-- statement by itself: the pairs of waits and runs would be many more groups.
-- Locks: nothing. Index: django_mq_history_pruning. Returns: queue, type, bucket, number, sum of the runs in milliseconds.
SELECT queue_name, type, {bucket:{run_ms}} AS ran, count(*), sum({run_ms})
FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s AND {is_accepted}
GROUP BY queue_name, type, ran

-- name: sum_arrived. Counts the messages that were published in a minute and did not end in it: what is finished since,
-- and what is here and younger than the mark.
-- Locks: nothing. Index: django_mq_history_pruning, the message table's primary key. Returns: queue, type, number; a
-- queue and type may come twice.
SELECT queue_name, type, count(*) FROM django_mq_history
WHERE finished_at >= %(end)s AND published_at >= %(start)s AND published_at < %(end)s
GROUP BY queue_name, type
UNION ALL
SELECT q.name, m.type, count(*) FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id > %(mark)s AND m.published_at >= %(start)s AND m.published_at < %(end)s
GROUP BY q.name, m.type

-- name: sum_failed. Counts the attempts that failed in a minute, and what died of them and stayed in its queue. A failed
-- attempt was a redelivery if it was not the message's first, or killed a worker, which counts from the second time on.
-- Locks: nothing. Index: django_mq_attempt_pruning, django_mq_message_once. Returns: queue, type, failed attempts,
-- redeliveries among them, dead messages.
SELECT a.queue_name, a.type, count(*),
    count(CASE WHEN a.message_id IS NOT NULL AND (a.number > 1 OR a.error = %(lost)s) THEN 1 END),
    count(DISTINCT CASE WHEN EXISTS (
        SELECT 1 FROM django_mq_message m
        WHERE m.message_id = a.message_id AND m.state = 3 AND m.dead_at >= %(start)s AND m.dead_at < %(end)s)
        THEN a.message_id END)
FROM django_mq_attempt a
WHERE a.failed_at >= %(start)s AND a.failed_at < %(end)s
GROUP BY a.queue_name, a.type

-- name: read_steps. Reads the figures of the steps of a length within a span.
-- Locks: nothing. Index: django_mq_rollupstep_once. Returns: the begin, the minutes in it that are known, and the
-- columns of write_step after them.
SELECT begins_at, minutes, queue_name, type, arrived, accepted, expired, removed, dead, failed, redelivered, ready,
    claimed, wait_seconds, run_seconds, waits, runs
FROM django_mq_rollupstep
WHERE seconds = %(seconds)s AND begins_at >= %(start)s AND begins_at < %(end)s

-- name: forget_step. Deletes a step that is to be summed up again.
-- Locks: its rows. Index: django_mq_rollupstep_once. Returns: nothing.
DELETE FROM django_mq_rollupstep WHERE seconds = %(seconds)s AND begins_at = %(start)s

-- name: _insert_step
INSERT INTO django_mq_rollupstep (
    seconds, begins_at, minutes, newest, counted, queue_name, type, arrived, accepted, expired, removed, dead, failed,
    redelivered, ready, claimed, wait_seconds, run_seconds, waits, runs)
VALUES (
    %(seconds)s, %(start)s, %(minutes)s, %(newest)s, %(counted)s, %(queue)s, %(type)s, %(arrived)s, %(accepted)s,
    %(expired)s, %(removed)s, %(dead)s, %(failed)s, %(redelivered)s, %(ready)s, %(claimed)s, %(wait_seconds)s,
    %(run_seconds)s, %(waits)s, %(runs)s)

-- name: write_step. Writes the figures of a step, unless they are there.
-- Locks: the new row; waits for another transaction that writes the same step. Returns: the id if it was not there.
{insert_step}
{unless_taken:seconds, begins_at, queue_name, type}
{returning:id}

-- name: write_parts_of_step. Writes the figures of queues and types of a step whose total has been written.
-- Locks: the new rows. Returns: nothing.
{insert_step}

-- name: prune_steps. Deletes the oldest steps of a length.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_rollupstep_once. Returns: one row per deleted row.
DELETE FROM django_mq_rollupstep WHERE id {among:
    SELECT id FROM django_mq_rollupstep
    WHERE seconds = %(seconds)s AND begins_at < %(before)s
    ORDER BY begins_at LIMIT %(limit)s}
RETURNING id

-- name: prune_minutes. Deletes the oldest minutes from the table of earlier releases, whose workers write to it.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_rollup_once. Returns: one row per deleted row.
DELETE FROM django_mq_rollup WHERE id {among:
    SELECT id FROM django_mq_rollup
    WHERE minute < %(before)s
    ORDER BY minute LIMIT %(limit)s}
RETURNING id
