-- name: drop_queue. Deletes a queue's row, its bindings and duplicate ids first.
-- Locks: the rows it deletes. Index: the queue's unique name. Returns: one row if it existed.
WITH q AS (SELECT id FROM django_mq_queue WHERE name = %(queue)s),
     bindings AS (DELETE FROM django_mq_binding WHERE queue_id = (SELECT id FROM q)),
     duplicates AS (DELETE FROM django_mq_duplicateid WHERE queue_id = (SELECT id FROM q))
DELETE FROM django_mq_queue WHERE name = %(queue)s RETURNING id
