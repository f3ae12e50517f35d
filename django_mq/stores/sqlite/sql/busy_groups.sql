-- Asks for the groups that must wait: one of their messages is claimed, or has failed and waits for its
-- next attempt.
-- Locks: nothing. Index: django_mq_message_claimed, django_mq_message_retrying, whose condition says
-- "redelivered" or "redelivered = 1" according to the Django that made it: a statement has to say both.
-- Returns: their keys.
SELECT h.group_key
FROM django_mq_message h
WHERE h.queue_id = %(queue_id)s AND h.state = 2 AND h.group_key IS NOT NULL
UNION
SELECT w.group_key
FROM django_mq_message w
WHERE w.queue_id = %(queue_id)s AND w.state = 0 AND w.redelivered AND w.redelivered = 1 AND w.group_key IS NOT NULL
