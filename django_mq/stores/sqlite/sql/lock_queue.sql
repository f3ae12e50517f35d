-- Makes publishers into a limited queue wait for each other, so that they cannot overshoot.
-- Locks: the database for writing, until the transaction ends. Index: the queue's unique name.
-- Returns: the most messages it may hold.
UPDATE django_mq_queue SET name = name WHERE name = %(queue)s RETURNING max_messages
