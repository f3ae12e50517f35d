-- Deletes the messages of a volatile queue.
-- Locks: the rows it deletes. Index: django_mq_volatile_queue.
-- Returns: one row per message.
DELETE FROM django_mq_volatilemessage WHERE queue_name = %(queue)s RETURNING id
