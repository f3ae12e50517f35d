-- Makes claimers of a queue with rules wait for each other.
-- Locks: the queue's turn, until the transaction ends. Index: the primary key.
-- Returns: nothing that is used.
INSERT INTO django_mq_turn (queue_id)
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s
ON DUPLICATE KEY UPDATE django_mq_turn.queue_id = django_mq_turn.queue_id
