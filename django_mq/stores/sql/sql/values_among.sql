-- Finds the ready messages among some, and what a last-value queue tells them by.
-- Locks: nothing. Index: the primary key.
-- Returns: id, queue id and key, which may be null, in order of arrival.
SELECT id, queue_id, value_key FROM django_mq_message
WHERE id {in_ids} AND state = 1
ORDER BY id
