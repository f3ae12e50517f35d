-- name: forget_steps. Deletes the records of a durable handler for a message that is gone.
-- Locks: the rows it deletes. Index: the constraint django_mq_durablestep_place. Returns: nothing.
DELETE FROM django_mq_durablestep WHERE message_id = %(message_id)s AND queue_name = %(queue)s

-- name: follow_message. Takes the records of a message along that was moved, to the queue of its new row.
-- Locks: the rows it changes. Index: the constraint django_mq_durablestep_place. Returns: nothing.
UPDATE django_mq_durablestep
SET queue_name = (
    SELECT q.name FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id WHERE m.id = %(new_row)s)
WHERE message_id = %(message_id)s AND queue_name = %(queue)s
