-- Makes publishers into a limited queue wait for each other, so that they cannot overshoot.
-- Locks: the queue's row until the transaction ends. Index: its unique name.
-- Returns: the most messages it may hold.
SELECT max_messages FROM django_mq_queue WHERE name = %(queue)s FOR UPDATE
