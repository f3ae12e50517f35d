-- Reads bodies that a claim has left out.
-- Locks: nothing; the messages are locked. Index: the primary key.
-- Returns: ids and bodies.
SELECT id, body FROM django_mq_message WHERE id IN %(ids)s
