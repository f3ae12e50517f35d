-- Asks whether some queues hold any living volatile message.
-- Locks: nothing. Index: django_mq_volatile_queue.
-- Returns: one row if so.
SELECT 1 FROM django_mq_volatilemessage WHERE queue_name IN %(queues)s AND expires_at > {now} LIMIT 1
