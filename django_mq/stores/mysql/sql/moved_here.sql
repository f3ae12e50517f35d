-- Finds messages that have been moved to a queue.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: id and message id.
SELECT id, message_id FROM django_mq_message
WHERE message_id IN %(message_ids)s AND queue_id = %(queue_id)s
