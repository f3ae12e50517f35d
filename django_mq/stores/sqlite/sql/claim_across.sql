-- Chooses the first ready messages of several queues, merged by message priority; queues whose
-- heads are equal take turns (or, when listed, follow the order of the list). lease.sql takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready, one walk per queue.
-- A message ranks by the least priority at or before it in its queue, so that no queue's own
-- order is broken, and no queue gives more than its own limit.
-- How many are taken is the same as fitting() in django_mq/engine/claim.py.
-- Returns: the messages, in no order; the last columns are how many were seen, and the rank.
WITH candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.suspect, walk.size_bytes, walk.queue_name,
        row_number() OVER (
            ORDER BY CASE WHEN %(listed)s THEN walk.position ELSE 0 END,
                     walk.urgency DESC, walk.turn, walk.position
        ) AS rank
    FROM (
        SELECT
            r.id, r.suspect, length(r.body) AS size_bytes, q.name AS queue_name, given.key AS position,
            json_extract(given.value, '$.limits') AS allowed,
            row_number() OVER own AS turn,
            min(r.priority) OVER own AS urgency
        FROM json_each(%(given)s) AS given
        CROSS JOIN django_mq_queue q ON q.name = json_extract(given.value, '$.queues') AND NOT {paused}
        CROSS JOIN django_mq_message r ON r.id IN (
            SELECT c.id
            FROM django_mq_message c
            WHERE c.state = 1 AND c.queue_id = q.id
            ORDER BY c.level DESC, c.place, c.id
            LIMIT %(credit)s)
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id)
    ) walk
    WHERE walk.turn <= walk.allowed
    ORDER BY rank
    LIMIT %(credit)s
), chosen AS (
    SELECT id, queue_name, rank, (SELECT count(*) FROM candidates) AS seen
    FROM (
        SELECT
            id, suspect, queue_name, rank,
            sum(suspect) OVER (ORDER BY rank) AS suspects,
            sum(size_bytes) OVER (ORDER BY rank) AS total_bytes
        FROM candidates
    )
    WHERE (suspects = 0 AND (rank = 1 OR total_bytes <= %(max_bytes)s))
       OR (suspect AND rank = 1 AND %(slots)s > 0)
)
SELECT {claimed_columns}, chosen.seen, chosen.rank
FROM chosen
JOIN django_mq_message m ON m.id = chosen.id
