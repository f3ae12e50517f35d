-- Removes unheld messages, all or those with a reason,; remember_removed.sql has run.
-- Locks: the database for writing. Index: the primary key.
-- Returns: the ids that went.
DELETE FROM django_mq_message
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state <> 2 AND (%(reason)s IS NULL OR dead_reason = %(reason)s)
RETURNING id
