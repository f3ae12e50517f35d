-- Reads one queue.
-- Locks: nothing. Index: its unique name.
-- Returns: the columns of QueueRecord, the options last.
SELECT
    q.id, q.name, q.closed, {paused},
    (SELECT coalesce(min(c.priority) <> max(c.priority), false) FROM django_mq_consumer c WHERE c.queue_name = q.name),
    {option_reads}
FROM django_mq_queue q
WHERE q.name = %(queue)s
