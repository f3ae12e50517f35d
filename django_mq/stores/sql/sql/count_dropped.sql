-- Counts messages that a full queue has dropped.
-- Locks: the queue's row, which lock_queue.sql has locked. Index: the primary key.
-- Returns: nothing.
UPDATE django_mq_queue SET dropped = dropped + %(dropped)s WHERE id = %(queue_id)s
