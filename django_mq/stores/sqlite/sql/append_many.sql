-- Writes one of many messages, as append.sql does; run again for each.
-- Locks: the database for writing. Index: the unique name of django_mq_queue.
-- Returns: nothing, because the driver runs only what answers nothing again by itself.
{write}
