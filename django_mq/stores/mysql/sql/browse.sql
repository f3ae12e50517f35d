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
    UNION ALL
    {first_in_state:7}
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
-- seconds a message has been waiting that could be delivered: the longest of the ready ones, if there are few, else of
-- those at the head of a level (longest_waiting reads more), and of the scheduled ones that are due; how many of the
-- scheduled ones are due; how many of those due first are retrying: as no index has their attempts, so many of
-- their rows are read; and how many are parked.
SELECT
    q.name, {counted_in_state:0}, {counted_in_state:1}, {counted_in_state:2}, {counted_in_state:3},
    (SELECT timestampdiff(MICROSECOND, nullif(min(least(
            coalesce((
                SELECT {since} FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
                ORDER BY m.place, m.id LIMIT 1), TIMESTAMP '9999-12-31 00:00:00'),
            CASE WHEN levels.level > 0 OR (SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
                                           WHERE m.queue_id = q.id AND m.state = 1 LIMIT 1 OFFSET %(read)s)
                 THEN TIMESTAMP '9999-12-31 00:00:00'
                 ELSE coalesce((
                    SELECT min({since}) FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
                    WHERE m.queue_id = q.id AND m.state = 1), TIMESTAMP '9999-12-31 00:00:00') END,
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
    (SELECT least(count(*), %(retrying)s) FROM django_mq_message d FORCE INDEX (django_mq_message_due)
     WHERE d.queue_id = q.id AND d.state = 0 AND d.attempts > 0 AND d.deliver_at <= coalesce((
         SELECT e.deliver_at FROM django_mq_message e FORCE INDEX (django_mq_message_due)
         WHERE e.queue_id = q.id AND e.state = 0
         ORDER BY e.deliver_at LIMIT 1 OFFSET %(retrying)s), TIMESTAMP '9999-12-31 23:59:59')),
    {counted_in_state:7}
FROM django_mq_queue q
WHERE %(every)s OR q.name IN %(names)s
ORDER BY q.name

-- name: _since
greatest(coalesce(m.deliver_at, m.published_at), m.published_at, coalesce(m.released_at, m.published_at))

-- name: _named
(SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s)

-- name: _waiting_in_level
(SELECT {it} AS level, 'due' AS part, {since} AS since, m.released_at IS NULL AS is_new
 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE m.queue_id = {named} AND m.state = 1 AND m.level = {it} AND m.place < 0
 ORDER BY m.place, m.id LIMIT %(read)s)
UNION ALL
(SELECT {it}, 'other', {since}, {since} = m.published_at FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE m.queue_id = {named} AND m.state = 1 AND m.level = {it} AND m.place >= 0
 ORDER BY m.place, m.id LIMIT %(read)s)

-- name: longest_waiting. Reads some of the ready messages of one queue that has many, as counts does on other databases,
-- where a subquery with a limit of its own can read for an outer row.
-- Locks: nothing. Index: django_mq_message_ready, each level twice, and the end of a sorted queue. Returns: for each level,
-- apart for due messages, others, and the end of a sorted queue, how long in seconds one message has been waiting, and
-- whether all of as many as are to be read have come back.
SELECT waiting.level, waiting.part, timestampdiff(MICROSECOND, min(waiting.since), {now}) / 1e6,
    count(*) >= %(read)s AND NOT max(waiting.is_new)
FROM (
    {waiting_in_level:0} UNION ALL {waiting_in_level:1} UNION ALL {waiting_in_level:2} UNION ALL {waiting_in_level:3}
    UNION ALL {waiting_in_level:4} UNION ALL {waiting_in_level:5} UNION ALL {waiting_in_level:6}
    UNION ALL {waiting_in_level:7} UNION ALL {waiting_in_level:8} UNION ALL {waiting_in_level:9}
    UNION ALL
    (SELECT m.level, 'last', {since}, true FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
     WHERE m.queue_id = {named} AND m.state = 1
       AND (SELECT q.sort_key FROM django_mq_queue q WHERE q.name = %(queue)s) <> ''
     ORDER BY m.level, m.place DESC, m.id DESC LIMIT %(read)s)
) waiting
GROUP BY waiting.level, waiting.part

-- name: longest_arrived. Finds the first ready message of a level that has not come back.
-- Locks: nothing. Index: django_mq_message_ready, at most limit entries and their rows. Returns: how long in seconds it has
-- been waiting, or no row.
SELECT timestampdiff(MICROSECOND, ahead.published_at, {now}) / 1e6
FROM (
    SELECT m.published_at, {since} AS since FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
    WHERE m.queue_id = {named} AND m.state = 1 AND m.level = %(level)s AND m.place >= 0
    ORDER BY m.place, m.id LIMIT %(limit)s
) ahead
WHERE ahead.since = ahead.published_at LIMIT 1

-- name: longest_due. Finds the first due message of a level that has not come back.
-- Locks: nothing. Index: django_mq_message_ready, at most limit entries and their rows. Returns: how long in seconds it has
-- been waiting, or no row.
SELECT timestampdiff(MICROSECOND, ahead.since, {now}) / 1e6
FROM (
    SELECT m.released_at, {since} AS since FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
    WHERE m.queue_id = {named} AND m.state = 1 AND m.level = %(level)s AND m.place < 0
    ORDER BY m.place, m.id LIMIT %(limit)s
) ahead
WHERE ahead.released_at IS NULL LIMIT 1

-- name: occupied. Finds the queue ids of all messages, also of queues that do not exist.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; all of its entries may be read, and no
-- row. (A recursion from queue to queue, as elsewhere, ends here after a thousand steps.) Returns: the queues' ids.
SELECT queue_id FROM django_mq_message FORCE INDEX (django_mq_message_ready) GROUP BY queue_id
