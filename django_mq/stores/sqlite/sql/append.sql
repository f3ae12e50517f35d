-- Writes one message behind all others of its level, or at its due place.
-- Locks: the database for writing. Index: the unique name of django_mq_queue.
-- Returns: the id; no row when the queue is unknown or closed, or the message id is taken.
{write}
RETURNING id
