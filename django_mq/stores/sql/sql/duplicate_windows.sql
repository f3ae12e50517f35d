-- Finds the queues that remember duplicate ids, and how many, or for how long.
-- Locks: nothing. Index: django_mq_duplicateid_age, once per queue.
-- Returns: queue id, count and seconds.
SELECT q.id, q.dedup_count, q.dedup_seconds FROM django_mq_queue q
WHERE EXISTS (SELECT 1 FROM django_mq_duplicateid d WHERE d.queue_id = q.id)
