-- Pauses or resumes a queue.
-- Locks: the database for writing. Index: its unique name.
-- Returns: one row if the queue exists.
UPDATE django_mq_queue
SET paused = %(paused)s, paused_reason = %(reason)s, paused_until = %(seconds_from_now)s
WHERE name = %(queue)s
RETURNING id
