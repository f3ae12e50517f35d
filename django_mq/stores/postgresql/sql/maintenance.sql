-- name: _reapable
{past_grace}
    AND EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.deadline < {now} OR {abandoned})
    OR EXISTS (
        SELECT 1 FROM django_mq_message held
        LEFT JOIN django_mq_workersession s ON s.id = held.session_id
        WHERE held.state = 2 AND s.id IS NULL)

-- name: _stalled
operation.beat_at < {now} - %(stalled_seconds)s * interval '1 second'

-- name: set_expired_aside. Marks expired messages dead whose queue sends them somewhere.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET state = 3, dead_reason = %(reason)s, dead_at = {now}, park_key = NULL, parked_until = NULL
WHERE id = ANY(ARRAY(
    SELECT m.id FROM django_mq_message m
    JOIN django_mq_queue q ON q.id = m.queue_id
    WHERE m.id = ANY(%(ids)s::bigint[]) AND m.state IN (0, 1, 7) AND m.dead_reason <> %(replaced)s AND {sends_expired}
    FOR UPDATE OF m SKIP LOCKED))
RETURNING id

-- name: prune_history. Deletes history older than its queue keeps; of queues that are gone, after a week.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_history_pruning, and in it only what is older than
-- the shortest time that any queue keeps. A queue that keeps nothing writes nothing, and counts only if the whole
-- history is to be looked at. The array is made once: an IN may be asked again for every row and then oversteps the
-- limit. Returns: one row per deleted row.
DELETE FROM django_mq_history
WHERE id = ANY(ARRAY(
    SELECT h.id FROM django_mq_history h
    LEFT JOIN django_mq_queue q ON q.name = h.queue_name
    WHERE h.finished_at < {now}
        - least(7, (SELECT min(kept.history_days) FROM django_mq_queue kept
        WHERE kept.history_days > 0 OR %(whole)s)) * interval '1 day'
    AND h.finished_at < {now} - least(coalesce(q.history_days, 7), 300000) * interval '1 day'
    ORDER BY h.finished_at LIMIT %(limit)s FOR UPDATE OF h SKIP LOCKED))
RETURNING id

-- name: prune_duplicates. Deletes duplicate ids that were used before a time, or so long ago.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age. Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid WHERE id {among:
    SELECT id FROM django_mq_duplicateid
    WHERE queue_id = %(queue_id)s
      AND (published_at < %(horizon)s::timestamptz OR published_at <= {now} - %(seconds)s::float8 * interval '1 second')
    ORDER BY published_at LIMIT %(limit)s}
RETURNING id
