-- Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the database for writing.
-- Index: django_mq_history_pruning, and in it only what is older than the shortest time that any queue keeps. A queue
-- that keeps nothing writes nothing, and counts only if the whole history is to be looked at.
-- Returns: one row per deleted row.
DELETE FROM django_mq_history
WHERE id IN (
    SELECT h.id FROM django_mq_history h
    LEFT JOIN django_mq_queue q ON q.name = h.queue_name
    WHERE h.finished_at < datetime({now}, printf('-%%f days',
        min(7, coalesce((SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s), 7))))
    AND h.finished_at < datetime({now}, printf('-%%f days', coalesce(q.history_days, 7)))
    ORDER BY h.finished_at
    LIMIT %(limit)s)
RETURNING id
