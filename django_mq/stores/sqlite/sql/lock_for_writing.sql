-- Takes the write lock at the start of a transaction; changes nothing.
-- Locks: the database for writing, until the transaction ends.
-- Returns: nothing.
UPDATE django_mq_queue SET name = name WHERE id < 0
