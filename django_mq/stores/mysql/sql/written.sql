-- Reads under which ids this transaction has written messages: a server may leave gaps between those of one INSERT.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: message id, queue, id.
SELECT message_id, queue_id, id FROM django_mq_message FORCE INDEX (django_mq_message_once) WHERE message_id IN %(message_ids)s
