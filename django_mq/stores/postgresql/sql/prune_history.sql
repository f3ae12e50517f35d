-- Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the rows it deletes, skipping locked ones.
-- Index: django_mq_history_pruning, and in it only what is older than the shortest time that any queue keeps. A queue
-- that keeps nothing writes nothing, and counts only if the whole history is to be looked at.
-- The array is made once: an IN may be asked again for every row and then oversteps the limit.
-- Returns: one row per deleted row.
DELETE FROM django_mq_history
WHERE id = ANY(ARRAY(
    SELECT h.id FROM django_mq_history h
    LEFT JOIN django_mq_queue q ON q.name = h.queue_name
    WHERE h.finished_at < {now}
        - least(7, (SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s)) * interval '1 day'
    AND h.finished_at < {now} - least(coalesce(q.history_days, 7), 300000) * interval '1 day'
    ORDER BY h.finished_at
    LIMIT %(limit)s
    FOR UPDATE OF h SKIP LOCKED))
RETURNING id
