-- Asks whether a live message with this id is in the queue.
-- Locks: nothing. Index: django_mq_message_once.
-- Returns: one row if there is one.
SELECT 1 FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id
WHERE q.name = %(queue)s AND m.message_id = %(message_id)s
