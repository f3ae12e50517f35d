-- Takes locked messages out of their queue for a moment: as many copies of them may be written there.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message SET queue_id = -queue_id WHERE id IN %(ids)s
