-- Deletes volatile messages nobody fetched in time.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small by design.
-- The array is made once, see prune_history.sql.
-- Returns: one row per deleted row.
DELETE FROM django_mq_volatilemessage
WHERE id = ANY(ARRAY(
    SELECT id FROM django_mq_volatilemessage WHERE expires_at < {now} LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id
