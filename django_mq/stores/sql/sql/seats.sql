-- Asks which live sessions have a seat in a queue.
-- Locks: nothing. Index: django_mq_ownership_group.
-- Returns: their ids.
SELECT o.session_id
FROM django_mq_ownership o
JOIN django_mq_workersession s ON s.id = o.session_id
WHERE o.queue_id = %(queue_id)s AND o.group_key IS NULL
