-- Deletes duplicate ids that a queue has remembered for long enough: all used before a time, or so long ago.
-- Locks: the database for writing. Index: django_mq_duplicateid_age.
-- Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE id IN (
    SELECT id FROM django_mq_duplicateid
    WHERE queue_id = %(queue_id)s AND (published_at < %(horizon)s OR %(seconds)s IS NOT NULL AND published_at <= strftime('%%Y-%%m-%%d %%H:%%M:%%f', {now}, printf('-%%f seconds', %(seconds)s)))
    ORDER BY published_at
    LIMIT %(limit)s)
RETURNING id
