-- Deletes duplicate ids that a queue has remembered for long enough: all used before a time, or so long ago.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age.
-- Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE id = ANY(ARRAY(
    SELECT id FROM django_mq_duplicateid
    WHERE queue_id = %(queue_id)s AND (published_at < %(horizon)s::timestamptz OR published_at <= {now} - %(seconds)s::float8 * interval '1 second')
    ORDER BY published_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id
