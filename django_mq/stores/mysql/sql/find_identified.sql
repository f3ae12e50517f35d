-- Finds the waiting messages, scheduled or ready, of some message ids, given as hex digits.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: ids.
SELECT id FROM django_mq_message
WHERE message_id IN %(message_ids)s AND state IN (0, 1)
