-- Forgets the duplicate ids of messages that were dropped after all.
-- Locks: the database for writing. Index: django_mq_duplicateid_once.
-- Returns: one row per deleted row.
DELETE FROM django_mq_duplicateid
WHERE queue_id = %(queue_id)s AND dedup_id IN (SELECT value FROM json_each(%(dedup_ids)s))
RETURNING id
