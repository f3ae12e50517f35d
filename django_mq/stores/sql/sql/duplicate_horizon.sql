-- Finds when the oldest of a queue's last so many duplicate ids was used.
-- Locks: nothing. Index: django_mq_duplicateid_age.
-- Returns: the time; no row if there are not so many.
SELECT published_at FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s
ORDER BY published_at DESC
LIMIT 1 OFFSET %(kept)s
