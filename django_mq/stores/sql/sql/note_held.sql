-- Writes down what a limited queue holds at most, and when that was counted.
-- Locks: the queue's row, which lock_queue.sql has locked. Index: the primary key.
-- Returns: nothing.
UPDATE django_mq_queue
SET held_messages = %(messages)s, held_bytes = %(size_bytes)s,
    counted_at = CASE WHEN %(exact)s THEN {now} ELSE counted_at END
WHERE id = %(queue_id)s
