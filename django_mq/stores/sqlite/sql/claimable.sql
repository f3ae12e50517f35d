-- Asks whether a claim would find anything: a ready or due message of a queue that is not paused.
-- Locks: nothing. Index: django_mq_message_ready and _due, one probe each per queue.
-- Returns: one row if so.
SELECT 1
FROM django_mq_queue q
WHERE q.name IN (SELECT value FROM json_each(%(queues)s)) AND NOT {paused}
  AND (EXISTS (SELECT 1 FROM django_mq_message m WHERE m.queue_id = q.id AND m.state = 1)
    OR EXISTS (SELECT 1 FROM django_mq_message m
               WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}))
LIMIT 1
