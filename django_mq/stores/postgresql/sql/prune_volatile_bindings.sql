-- Deletes volatile bindings nobody renews.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small by design.
-- Returns: one row per deleted row.
DELETE FROM django_mq_volatilebinding
WHERE id = ANY(ARRAY(SELECT id FROM django_mq_volatilebinding WHERE expires_at < {now} FOR UPDATE SKIP LOCKED))
RETURNING id
