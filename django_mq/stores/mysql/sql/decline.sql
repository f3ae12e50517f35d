-- name: prune_declined. Forgets the declines of messages that are gone.
-- Locks: the rows it deletes. Index: the primary keys. Returns: a row for each.
DELETE FROM django_mq_declined
WHERE NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = django_mq_declined.message_id)
ORDER BY id LIMIT %(limit)s
