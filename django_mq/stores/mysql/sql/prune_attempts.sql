-- Deletes failed attempts older than 30 days whose message is no longer here.
-- Locks: the rows it deletes. Index: django_mq_attempt_pruning, django_mq_message_once.
-- Returns: one row per deleted row.
DELETE FROM django_mq_attempt
WHERE failed_at < {now} - INTERVAL 30 DAY
  AND NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.message_id = django_mq_attempt.message_id)
ORDER BY failed_at
LIMIT %(limit)s
