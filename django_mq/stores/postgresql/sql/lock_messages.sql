-- Waits for every open transaction that wrote messages, and holds others off.
-- Locks: the table against writing, until the transaction ends.
-- Returns: nothing.
LOCK TABLE django_mq_message IN SHARE MODE
