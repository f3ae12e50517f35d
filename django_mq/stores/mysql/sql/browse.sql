-- name: _first_in_state
(SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.state = {it} AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
       AND {it} IN %(states)s AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)

-- name: browse. Reads messages of one queue in delivery order, those beyond a given position.
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state. Returns: the columns of Browsed.
SELECT {browsed}
FROM (
    {first_in_state:0}
    UNION ALL
    {first_in_state:1}
    UNION ALL
    {first_in_state:2}
    UNION ALL
    {first_in_state:3}
) head
STRAIGHT_JOIN django_mq_message m ON m.id = head.id
STRAIGHT_JOIN django_mq_queue q ON q.id = m.queue_id
ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s

-- name: _counted_in_state
CASE WHEN (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = {it} LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
               WHERE m.queue_id = q.id AND m.state = {it}) END

-- name: counts. Counts each state of each queue, every count stopping at the limit: only what has no entry beyond the
-- limit is counted. (No subquery of MariaDB's with a limit of its own may count for an outer row.)
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state, at most twice limit entries of
-- each state; django_mq_message_due, its first entry, and at most twice limit of what is due. The end of all time
-- stands for none, as least() of a null is null. Returns: name, scheduled, ready, claimed, dead, and how long in
-- seconds a message has been waiting that could be delivered: the longest of the ready ones at the head of a level, and
-- of the scheduled ones that are due; how many of the scheduled ones are due; and how many
-- of those due first are retrying: as no index has their attempts, so many of their rows are read.
SELECT
    q.name, {counted_in_state:0}, {counted_in_state:1}, {counted_in_state:2}, {counted_in_state:3},
    (SELECT timestampdiff(MICROSECOND, nullif(min(least(
            coalesce((
                SELECT greatest(coalesce(m.deliver_at, m.published_at), m.published_at)
                FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
                ORDER BY m.place, m.id LIMIT 1), TIMESTAMP '9999-12-31 00:00:00'),
            CASE WHEN levels.level > 0 THEN TIMESTAMP '9999-12-31 00:00:00' ELSE coalesce((
                SELECT d.deliver_at FROM django_mq_message d FORCE INDEX (django_mq_message_due)
                WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}
                ORDER BY d.deliver_at
                LIMIT 1), TIMESTAMP '9999-12-31 00:00:00') END)), TIMESTAMP '9999-12-31 00:00:00'), {now}) / 1e6
     FROM {levels} levels),
    CASE WHEN (SELECT 1 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
               WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now} LIMIT 1 OFFSET %(limit)s)
         THEN %(limit)s
         ELSE (SELECT count(*) FROM django_mq_message d FORCE INDEX (django_mq_message_due)
               WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}) END,
    (SELECT least(count(*), %(read)s) FROM django_mq_message d FORCE INDEX (django_mq_message_due)
     WHERE d.queue_id = q.id AND d.state = 0 AND d.attempts > 0 AND d.deliver_at <= coalesce((
         SELECT e.deliver_at FROM django_mq_message e FORCE INDEX (django_mq_message_due)
         WHERE e.queue_id = q.id AND e.state = 0
         ORDER BY e.deliver_at LIMIT 1 OFFSET %(read)s), TIMESTAMP '9999-12-31 23:59:59'))
FROM django_mq_queue q
WHERE %(every)s OR q.name IN %(names)s
ORDER BY q.name

-- name: occupied. Finds the queue ids of all messages, also of queues that do not exist.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; all of its entries may be read, and no
-- row. (A recursion from queue to queue, as elsewhere, ends here after a thousand steps.) Returns: the queues' ids.
SELECT queue_id FROM django_mq_message FORCE INDEX (django_mq_message_ready) GROUP BY queue_id
