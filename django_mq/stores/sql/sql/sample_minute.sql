-- Reads when accepted messages of one minute were ready, claimed and finished.
-- Locks: nothing. Index: django_mq_history_pruning.
-- Returns: queue and three times, of at most so many messages.
SELECT queue_name, ready_at, claimed_at, finished_at FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s AND outcome = 1 AND claimed_at IS NOT NULL
LIMIT %(limit)s
