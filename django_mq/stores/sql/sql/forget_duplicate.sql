-- Forgets a duplicate id whose time is over.
-- Locks: the row it deletes. Index: the primary key.
-- Returns: one row if it was still there.
DELETE FROM django_mq_duplicateid WHERE id = %(id)s
RETURNING id
