-- Forgets the duplicate ids of messages that were dropped after all.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_once.
-- Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s AND dedup_id = ANY(%(dedup_ids)s::text[])
RETURNING id
