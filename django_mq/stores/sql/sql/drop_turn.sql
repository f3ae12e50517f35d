-- Forgets the turn of a queue that is about to be deleted.
-- Locks: its row. Index: the primary key.
-- Returns: nothing that is used.
DELETE FROM django_mq_turn WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
