-- name: _constrained. Locks the row alone: its entry in the index of names is what publishers share, see stays.
SELECT
    q.id, q.max_messages, q.max_bytes, q.overflow, q.last_value_key, {sends_dropped:q.}, q.held_messages, q.held_bytes,
    coalesce(q.counted_at > {now} - INTERVAL 1 MINUTE, false)
FROM django_mq_queue q
WHERE q.id = (
    SELECT q.id FROM django_mq_queue q
    WHERE q.name = %(queue)s AND {locks_publishers})
FOR UPDATE {it}

-- name: count_up_to. Counts a queue's messages, the dead ones if asked, stopping at the limit.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; no row is read. Returns: the count.
SELECT count(*) FROM (
    SELECT 1 FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
    WHERE m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s) AND (%(dead)s OR m.state <> 3)
    LIMIT %(limit)s
) counted

-- name: measure_queue. Counts a queue's messages, the dead ones if asked, and the bytes of their bodies: all of them, so
-- it is asked for rarely.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue. Returns: messages and bytes.
SELECT count(*), coalesce(sum(octet_length(body)), 0)
FROM django_mq_message FORCE INDEX (django_mq_message_ready)
WHERE queue_id = %(queue_id)s AND (%(dead)s OR state <> 3)

-- name: newest_in_queue. Reads the highest message id of one queue.
-- Locks: nothing. Index: django_mq_message_ready, which begins with the queue; nothing else is read. The sum keeps the
-- primary key from being walked back through other queues' messages. Returns: the id, null if the queue is empty.
SELECT max(id + 0) FROM django_mq_message FORCE INDEX (django_mq_message_ready) WHERE queue_id = %(queue_id)s
