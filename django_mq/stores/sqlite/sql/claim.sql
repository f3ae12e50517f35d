-- Chooses the first ready messages of one queue, unless the queue is paused; lease.sql takes them.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_ready.
-- Returns: the messages, in no order, and how many were seen before a suspect cut the batch.
-- A suspect message is chosen alone, and only with a free slot.
WITH head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place
    FROM django_mq_message r
    WHERE r.state = 1 AND r.queue_id = (
        SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND NOT ({paused}))
    ORDER BY r.level DESC, r.place, r.id
    LIMIT %(credit)s
), chosen AS (
    SELECT id, %(queue)s AS queue_name, (SELECT count(*) FROM head) AS seen
    FROM (
        SELECT
            id, suspect,
            row_number() OVER delivery AS rank,
            sum(suspect) OVER delivery AS suspects
        FROM head
        WINDOW delivery AS (ORDER BY level DESC, place, id)
    )
    WHERE suspects = 0 OR (suspect AND rank = 1 AND %(slots)s > 0)
)
SELECT {claimed_columns}, chosen.seen
FROM chosen
JOIN django_mq_message m ON m.id = chosen.id
