-- Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the rows it deletes.
-- Index: django_mq_history_pruning, and in it only what is older than the shortest time that any queue keeps. A queue
-- that keeps nothing writes nothing, and counts only if the whole history is to be looked at.
-- Returns: one row per deleted row.
DELETE FROM django_mq_history
WHERE finished_at < {now} - INTERVAL
    round(least(7, coalesce((SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s), 7)) * 86400) SECOND
AND finished_at < {now} - INTERVAL round(coalesce(
    (SELECT least(q.history_days, 300000) FROM django_mq_queue q WHERE q.name = queue_name), 7) * 86400) SECOND
ORDER BY finished_at
LIMIT %(limit)s
