-- Deletes volatile messages nobody fetched in time.
-- Locks: the rows it deletes. No index: the table is small by design.
-- Returns: one row per deleted row.
DELETE FROM django_mq_volatilemessage WHERE expires_at < {now} LIMIT %(limit)s
