-- Gives a session back what lock_given_back.sql locked.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message m
SET {taken_back}
WHERE id IN %(ids)s
