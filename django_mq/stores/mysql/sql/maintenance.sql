-- name: due_duties. Asks which duties of maintenance have something to do, a column for each, in the order of
-- ASKED in maintenance.py. To be reaped is an expired session, unless the server has just started, and a message that is
-- held in the name of no session.
-- Locks: nothing. Index: django_mq_session_deadline, django_mq_message_claimed, _due, _waking and _expiring, and
-- django_mq_periodic_look. Returns: one row of nine truths.
SELECT
    {past_grace} AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE deadline < {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_message held FORCE INDEX (django_mq_message_claimed)
        LEFT JOIN django_mq_workersession s ON s.id = held.session_id
        WHERE held.session_id > 0 AND held.state = 2 AND s.id IS NULL) AS reap,
    EXISTS (
        SELECT 1 FROM django_mq_queue q
        JOIN django_mq_message due FORCE INDEX (django_mq_message_due)
          ON due.queue_id = q.id AND due.state = 0 AND due.deliver_at <= {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_queue q
        JOIN django_mq_message parked FORCE INDEX (django_mq_message_waking)
          ON parked.queue_id = q.id AND parked.parked_until <= {now} AND parked.state = 7) AS promote,
    EXISTS (
        SELECT 1 FROM django_mq_message old FORCE INDEX (django_mq_message_expiring)
        WHERE old.state IN (0, 1, 7) AND old.expires_at <= {now}) AS expire,
    EXISTS (SELECT 1 FROM django_mq_queue ring WHERE {overfull}) AS trim,
    EXISTS (
        SELECT 1 FROM django_mq_operation operation
        WHERE operation.status = 'running'
          AND operation.beat_at < {now} - INTERVAL %(stalled_seconds)s SECOND) AS take_over,
    EXISTS (SELECT 1 FROM django_mq_queue q WHERE {ends}) AS delete_unused,
    EXISTS (SELECT 1 FROM django_mq_declined) AS bury_unwanted,
    false AS cover,
    EXISTS (
        SELECT 1 FROM django_mq_periodic tick
        WHERE tick.look_at <= {ahead:soon_seconds} AND NOT tick.is_paused) AS publish

-- name: _expired_in_state
(SELECT id FROM django_mq_message FORCE INDEX (django_mq_message_expiring)
 WHERE state = {it} AND expires_at <= {now} ORDER BY expires_at LIMIT %(limit)s)

-- name: find_expired. Finds scheduled, ready and parked messages whose time to live is over.
-- Locks: nothing. Index: django_mq_message_expiring, one walk per state. Returns: ids.
{expired_in_state:0} UNION ALL {expired_in_state:1} UNION ALL {expired_in_state:7} LIMIT %(limit)s

-- name: prune_history. Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the rows it deletes. Index: django_mq_history_pruning, and in it only what is older than the shortest time
-- that any queue keeps. A queue that keeps nothing writes nothing, and counts only if the whole history is to be looked
-- at. Returns: one row per deleted row.
DELETE FROM django_mq_history WHERE finished_at < {now} - INTERVAL
    round(least(7, coalesce((SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s), 7)) * 86400) SECOND
AND finished_at < {now} - INTERVAL round(coalesce(
    (SELECT least(q.history_days, 300000) FROM django_mq_queue q WHERE q.name = queue_name), 7) * 86400) SECOND
ORDER BY finished_at LIMIT %(limit)s

-- name: prune_attempts. Deletes failed attempts older than 30 days whose message is no longer here.
-- Locks: the rows it deletes. Index: django_mq_attempt_pruning, django_mq_message_once. Returns: a row for each.
DELETE FROM django_mq_attempt WHERE failed_at < {now} - INTERVAL 30 DAY
  AND NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.message_id = django_mq_attempt.message_id)
ORDER BY failed_at LIMIT %(limit)s

-- name: prune_duplicates. Deletes duplicate ids that were used before a time, or so long ago.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age. Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s AND (published_at < %(horizon)s OR published_at <= {now} - INTERVAL round(%(seconds)s * 1000000) MICROSECOND)
ORDER BY published_at LIMIT %(limit)s

-- name: prune_task_results. Deletes expired results of Django's tasks.
-- Locks: the rows it deletes. Index: django_mq_taskresult_pruning. Returns: one row per deleted row.
DELETE FROM django_mq_taskresult WHERE expires_at < {now} ORDER BY expires_at LIMIT %(limit)s

-- name: prune_volatile_bindings. Deletes volatile bindings that were not renewed.
-- Locks: the rows it deletes. No index: the table is small by design. Returns: one row per deleted row.
DELETE FROM django_mq_volatilebinding WHERE expires_at < {now}

-- name: prune_volatile_messages. Deletes volatile messages that were not fetched in time.
-- Locks: the rows it deletes. No index: the table is small by design. Returns: one row per deleted row.
DELETE FROM django_mq_volatilemessage WHERE expires_at < {now} LIMIT %(limit)s
