-- Pauses or resumes a queue.
-- Locks: the queue's row. Index: its unique name.
-- Returns: one row if the queue exists.
UPDATE django_mq_queue
SET paused = %(paused)s, paused_reason = %(reason)s,
    paused_until = {now} + %(seconds)s::float8 * interval '1 second'
WHERE name = %(queue)s
RETURNING id
