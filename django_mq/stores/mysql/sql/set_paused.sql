-- Pauses or resumes a queue.
-- Locks: the queue's row, and not its entry in the index of names, where open publishes are: the
-- row is found by its key.
-- Returns: one row if the queue exists.
UPDATE django_mq_queue
SET paused = %(paused)s, paused_reason = %(reason)s,
    paused_until = {now} + INTERVAL round(%(seconds)s * 1000000) MICROSECOND
WHERE id = %(queue_id)s
