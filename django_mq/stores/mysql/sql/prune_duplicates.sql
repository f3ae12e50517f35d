-- Deletes duplicate ids that a queue has remembered for long enough: all used before a time, or so long ago.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age.
-- Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s AND (published_at < %(horizon)s OR published_at <= {now} - INTERVAL round(%(seconds)s * 1000000) MICROSECOND)
ORDER BY published_at
LIMIT %(limit)s
