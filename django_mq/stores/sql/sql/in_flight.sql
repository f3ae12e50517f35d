-- Counts what is claimed of a queue.
-- Locks: nothing. Index: django_mq_message_claimed.
-- Returns: the number.
SELECT count(*) FROM django_mq_message WHERE queue_id = %(queue_id)s AND state = 2
