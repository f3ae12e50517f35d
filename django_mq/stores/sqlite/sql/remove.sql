-- Removes unheld messages; remember_removed.sql has run.
-- Locks: the database for writing. Index: the primary key.
-- Returns: the ids that went.
DELETE FROM django_mq_message
WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND state <> 2
RETURNING id
