-- Deletes volatile bindings nobody renews.
-- Locks: the rows it deletes. No index: the table is small by design.
-- Returns: one row per deleted row.
DELETE FROM django_mq_volatilebinding WHERE expires_at < {now}
