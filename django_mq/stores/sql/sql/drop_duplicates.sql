-- Deletes the duplicate ids of a queue; drop_queue.sql follows.
-- Locks: the rows it deletes. Index: django_mq_duplicateid_age.
-- Returns: nothing.
DELETE FROM django_mq_duplicateid WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
