-- Finds scheduled and ready messages whose time to live is over.
-- Locks: nothing. Index: django_mq_message_expiring.
-- Returns: ids.
SELECT id FROM django_mq_message
WHERE expires_at IS NOT NULL AND state < 2 AND expires_at <= {now}
ORDER BY expires_at
LIMIT %(limit)s
