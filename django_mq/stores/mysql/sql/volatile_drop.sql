-- Deletes volatile messages that this transaction has locked.
-- Locks: the rows it deletes. Index: the primary key.
-- Returns: one row per message.
DELETE FROM django_mq_volatilemessage WHERE id IN %(ids)s
