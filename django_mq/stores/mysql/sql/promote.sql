-- Makes ready what lock_due.sql locked.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message SET state = 1 WHERE id IN %(ids)s
