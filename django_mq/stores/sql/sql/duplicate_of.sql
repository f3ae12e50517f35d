-- Asks which message has used a duplicate id, and when.
-- Locks: nothing. Index: django_mq_duplicateid_once.
-- Returns: id, message id, when it was used, the time now, and for how many seconds the queue remembers an id;
-- no row if the id is not remembered.
SELECT d.id, d.message_id, d.published_at, {now}, q.dedup_seconds
FROM django_mq_queue q
JOIN django_mq_duplicateid d ON d.queue_id = q.id
WHERE q.name = %(queue)s AND d.dedup_id = %(dedup_id)s
