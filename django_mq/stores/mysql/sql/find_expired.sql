-- Finds scheduled and ready messages whose time to live is over.
-- Locks: nothing. Index: django_mq_message_expiring, one walk per state.
-- Returns: ids.
(SELECT id FROM django_mq_message FORCE INDEX (django_mq_message_expiring)
 WHERE state = 0 AND expires_at <= {now} ORDER BY expires_at LIMIT %(limit)s)
UNION ALL
(SELECT id FROM django_mq_message FORCE INDEX (django_mq_message_expiring)
 WHERE state = 1 AND expires_at <= {now} ORDER BY expires_at LIMIT %(limit)s)
LIMIT %(limit)s
