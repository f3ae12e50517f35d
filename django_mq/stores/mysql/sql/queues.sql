-- name: set_paused. Pauses or resumes a queue.
-- Locks: the queue's row, and not its entry in the index of names, where open publishes are: the row is found by its
-- key. Returns: one row if the queue exists.
UPDATE django_mq_queue
SET paused = %(paused)s, paused_reason = %(reason)s,
    paused_until = {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND
WHERE id = %(queue_id)s

-- name: bind. Binds a queue to an exchange; binding again changes nothing.
-- Locks: the new row. Index: django_mq_binding_once. Returns: one row.
INSERT INTO django_mq_binding (exchange, exchange_type, pattern, queue_id)
SELECT %(exchange)s, %(exchange_type)s, %(pattern)s, q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON DUPLICATE KEY UPDATE queue_id = q.id
