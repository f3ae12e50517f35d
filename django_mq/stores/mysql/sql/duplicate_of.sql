-- Asks which message has used a duplicate id, and whether that is so long ago that it counts no more.
-- Locks: nothing. Index: django_mq_duplicateid_once.
-- Returns: id, message id and whether its time is over; no row if the id is not remembered.
SELECT d.id, d.message_id, coalesce(d.published_at <= {now} - INTERVAL round(least(q.dedup_seconds, 2e9) * 1000000) MICROSECOND, false)
FROM django_mq_queue q
JOIN django_mq_duplicateid d ON d.queue_id = q.id
WHERE q.name = %(queue)s AND d.dedup_id = %(dedup_id)s
