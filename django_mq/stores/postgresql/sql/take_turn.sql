-- Makes claimers of a queue with rules wait for each other. The condition keeps the row as it is: it is locked all the same, and no version of it is left behind.
-- Locks: the queue's turn, until the transaction ends. Index: the primary key.
-- Returns: nothing that is used.
INSERT INTO django_mq_turn (queue_id)
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON CONFLICT (queue_id) DO UPDATE SET queue_id = excluded.queue_id WHERE false
