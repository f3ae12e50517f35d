-- name: due_duties. Asks which duties of maintenance have something to do, a column for each, in the order of
-- ASKED in maintenance.py. To be reaped is an expired session or one whose connection has ended, unless the server has
-- just started, and a message that is held in the name of no session.
-- Locks: nothing. Index: django_mq_session_deadline, django_mq_message_claimed, _due, _waking, _expiring and _ending, and
-- django_mq_periodic_look. Returns: one row of nine truths.
SELECT
    {reapable} AS reap,
    EXISTS (
        SELECT 1 FROM django_mq_queue q
        WHERE EXISTS (
            SELECT 1 FROM django_mq_message due
            WHERE due.queue_id = q.id AND due.state = 0 AND due.deliver_at <= {now})
           OR EXISTS (
            SELECT 1 FROM django_mq_message parked
            WHERE parked.queue_id = q.id AND parked.state = 7 AND parked.parked_until <= {now})) AS promote,
    EXISTS (
        SELECT 1 FROM django_mq_message old
        WHERE old.expires_at IS NOT NULL AND old.state < 2 AND old.expires_at <= {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_message old
        WHERE old.expires_at IS NOT NULL AND old.state = 7 AND old.expires_at <= {now}) AS expire,
    EXISTS (SELECT 1 FROM django_mq_queue ring WHERE {overfull}) AS trim,
    EXISTS (SELECT 1 FROM django_mq_operation operation WHERE operation.status = 'running' AND {stalled}) AS take_over,
    EXISTS (SELECT 1 FROM django_mq_queue q WHERE {ends}) AS delete_unused,
    EXISTS (SELECT 1 FROM django_mq_declined) AS bury_unwanted,
    EXISTS (SELECT 1 FROM django_mq_queue q WHERE {declaring}) AS cover,
    EXISTS (
        SELECT 1 FROM django_mq_periodic tick
        WHERE tick.look_at <= {ahead:soon_seconds} AND NOT tick.is_paused) AS publish

-- name: find_expired. Finds scheduled, ready and parked messages whose time to live is over.
-- Locks: nothing. Index: django_mq_message_expiring and _ending, one walk each. Returns: ids.
SELECT id FROM (
    {branch}SELECT id, expires_at FROM django_mq_message
     WHERE expires_at IS NOT NULL AND state < 2 AND expires_at <= {now}
     ORDER BY expires_at LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT id, expires_at FROM django_mq_message
     WHERE expires_at IS NOT NULL AND state = 7 AND expires_at <= {now}
     ORDER BY expires_at LIMIT %(limit)s)
) expired
ORDER BY expires_at LIMIT %(limit)s

-- name: set_expired_aside. Marks expired messages dead whose queue sends them somewhere.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET state = 3, dead_reason = %(reason)s, dead_at = {now}, park_key = NULL, parked_until = NULL
WHERE id {in:ids} AND state IN (0, 1, 7) AND dead_reason <> %(replaced)s
  AND queue_id IN (SELECT q.id FROM django_mq_queue q WHERE {sends_expired})
{returning:id}

-- name: prune_attempts. Deletes failed attempts older than 30 days whose message is no longer here.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_attempt_pruning, django_mq_message_once. Returns:
-- one row per deleted row.
DELETE FROM django_mq_attempt WHERE id {among:
    SELECT a.id FROM django_mq_attempt a
    WHERE a.failed_at < {ago:30 day}
      AND NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.message_id = a.message_id)
    ORDER BY a.failed_at LIMIT %(limit)s}
RETURNING id

-- name: prune_task_results. Deletes expired results of Django's tasks.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_taskresult_pruning. Returns: a row for each.
DELETE FROM django_mq_taskresult WHERE message_id {among:
    SELECT message_id FROM django_mq_taskresult
    WHERE expires_at < {now}
    ORDER BY expires_at LIMIT %(limit)s}
RETURNING message_id

-- name: prune_volatile_bindings. Deletes volatile bindings that were not renewed.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_volatilebinding WHERE id {among:SELECT id FROM django_mq_volatilebinding WHERE expires_at < {now}}
RETURNING id

-- name: prune_volatile_messages. Deletes volatile messages that were not fetched in time.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_volatilemessage
WHERE id {among:SELECT id FROM django_mq_volatilemessage WHERE expires_at < {now} LIMIT %(limit)s}
RETURNING id
