-- name: _reapable
EXISTS (SELECT 1 FROM django_mq_workersession WHERE deadline < {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_message held
        WHERE held.state = 2
          AND NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))

-- name: _stalled
julianday(operation.beat_at) < julianday({now}) - %(stalled_seconds)s / 86400.0

-- name: prune_history. Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the database for writing. Index: django_mq_history_pruning, and in it only what is older than the shortest
-- time that any queue keeps. A queue that keeps nothing writes nothing, and counts only if the whole history is to be
-- looked at. Returns: one row per deleted row.
DELETE FROM django_mq_history
WHERE id IN (
    SELECT h.id FROM django_mq_history h
    LEFT JOIN django_mq_queue q ON q.name = h.queue_name
    WHERE h.finished_at < datetime({now}, printf('-%%f days',
        min(7, coalesce((SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s), 7))))
    AND h.finished_at < datetime({now}, printf('-%%f days', coalesce(q.history_days, 7)))
    ORDER BY h.finished_at LIMIT %(limit)s)
RETURNING id

-- name: prune_duplicates. Deletes duplicate ids that were used before a time, or so long ago.
-- Locks: the database for writing. Index: django_mq_duplicateid_age. Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid WHERE id {among:
    SELECT id FROM django_mq_duplicateid
    WHERE queue_id = %(queue_id)s AND (published_at < %(horizon)s OR %(seconds)s IS NOT NULL
      AND published_at <= strftime('%%Y-%%m-%%d %%H:%%M:%%f', {now}, printf('-%%f seconds', %(seconds)s)))
    ORDER BY published_at LIMIT %(limit)s}
RETURNING id
