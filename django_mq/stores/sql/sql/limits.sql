-- name: lock_queue. Makes publishers to a queue with rules wait for each other, so that they stay within its limits.
-- Locks: the queue's row until the transaction ends; nothing of a queue without rules. Index: its unique name. Returns:
-- id, limits, overflow, key of last values, whether replaced messages become dead letters, an upper bound of its
-- contents, and whether the bound is fresh.
{constrained}

-- name: lock_free_queue. Does what lock_queue does, but skips a locked queue: the publisher with the lock makes room.
-- Locks: the queue's row until the transaction ends, skipping a locked one; nothing of a queue without rules. Index:
-- its unique name. Returns: what lock_queue returns; no row if the queue is locked.
{constrained:SKIP LOCKED}

-- name: note_held. Writes the upper bound of a limited queue's contents, and when they were counted.
-- Locks: the queue's row, which lock_queue has locked. Index: the primary key. Returns: nothing.
UPDATE django_mq_queue
SET held_messages = %(messages)s, held_bytes = %(size_bytes)s,
    counted_at = CASE WHEN %(exact)s THEN {now} ELSE counted_at END
WHERE id = %(queue_id)s

-- name: count_dropped. Counts messages that a full queue has dropped.
-- Locks: the queue's row, which lock_queue has locked. Index: the primary key. Returns: nothing.
UPDATE django_mq_queue SET dropped = dropped + %(dropped)s WHERE id = %(queue_id)s

-- name: count_up_to. Counts a queue's messages, the dead ones if asked, stopping at the limit.
-- Locks: nothing. Index: the partial indexes of a queue's states. The order makes it walk the index of each state,
-- for any statistics; for the dead the range does, because the order of ids alone would be the primary key's
-- too. Returns: the count.
WITH q AS (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
SELECT count(*) FROM (
    {branch}SELECT 1 FROM django_mq_message m
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.deliver_at LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT 1 FROM django_mq_message m
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT 1 FROM django_mq_message m
     WHERE m.state = 7 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.park_key LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT 1 FROM django_mq_message m
     WHERE m.state = 2 AND m.queue_id = (SELECT id FROM q)
     ORDER BY m.session_id LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT 1 FROM django_mq_message m
     WHERE %(dead)s AND m.state = 3 AND m.queue_id BETWEEN (SELECT id FROM q) AND (SELECT id FROM q)
     ORDER BY m.queue_id, m.id LIMIT %(limit)s)
) counted

-- name: measure_queue. Counts a queue's messages, the dead ones if asked, and the bytes of their bodies; it reads all of
-- them, and is run rarely.
-- Locks: nothing. Index: the partial indexes of a queue's states. Returns: messages and bytes.
SELECT count(*), coalesce(sum(size_bytes), 0) FROM (
    SELECT {size_bytes} AS size_bytes FROM django_mq_message m WHERE m.state = 0 AND m.queue_id = %(queue_id)s
    UNION ALL
    SELECT {size_bytes} AS size_bytes FROM django_mq_message m WHERE m.state = 1 AND m.queue_id = %(queue_id)s
    UNION ALL
    SELECT {size_bytes} AS size_bytes FROM django_mq_message m WHERE m.state = 2 AND m.queue_id = %(queue_id)s
    UNION ALL
    SELECT {size_bytes} AS size_bytes FROM django_mq_message m WHERE m.state = 7 AND m.queue_id = %(queue_id)s
    UNION ALL
    SELECT {size_bytes} AS size_bytes FROM django_mq_message m
    WHERE %(dead)s AND m.state = 3 AND m.queue_id = %(queue_id)s
) counted

-- name: _overfull. The same as is_exceeded() of QueueCapacity in django_mq/stores/sql/admission.py; a ring not counted yet may be.
ring.overflow = 'ring'
AND (ring.max_messages IS NOT NULL OR ring.max_bytes IS NOT NULL)
AND (ring.counted_at IS NULL OR ring.held_messages > ring.max_messages OR ring.held_bytes > ring.max_bytes)

-- name: overfull_rings. Finds the rings that may be above their limits, by their upper bounds, and have ready
-- messages to remove.
-- Locks: nothing. Index: django_mq_message_ready, one entry per ring; the queues are read one and all. Neither EXISTS
-- nor IN asks for the entry: the planner may read every ready message for those. Returns: their names, in order.
SELECT ring.name FROM django_mq_queue ring
WHERE {overfull}
AND (
    SELECT m.level FROM django_mq_message m {by:django_mq_message_ready}
    WHERE m.queue_id = ring.id AND m.state = 1
    ORDER BY m.level LIMIT 1) IS NOT NULL
ORDER BY ring.name

-- name: lowest_level. Finds the lowest level, from a given one on, at which a queue has ready messages.
-- Locks: nothing. Index: django_mq_message_ready, from its end. Returns: the level; no row if there is none.
SELECT level FROM django_mq_message {by:django_mq_message_ready}
WHERE queue_id = %(queue_id)s AND state = 1 AND level >= %(level)s
ORDER BY level LIMIT 1

-- name: evictable. Finds the first ready messages of one level of a ring, but not the newcomer.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_ready. Returns: id and bytes of the body.
SELECT m.id, {size_bytes} FROM django_mq_message m {by:django_mq_message_ready}
WHERE m.queue_id = %(queue_id)s AND m.state = 1 AND m.level = %(level)s AND m.id <> %(spared)s
ORDER BY m.place, m.id LIMIT %(limit)s {skip_locked}

-- name: newest_in_queue. Reads the highest message id of one queue.
-- Locks: nothing. Index: the partial indexes of a queue's states. The sum keeps the primary key from being walked
-- back through other queues' messages. Returns: the id, null if the queue is empty.
SELECT max(id) FROM (
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 0 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 1 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 2 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 3 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT max(id + 0) AS id FROM django_mq_message WHERE state = 7 AND queue_id = %(queue_id)s
) newest
