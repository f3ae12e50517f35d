-- Leases the first ready messages of one queue to a session, unless the queue is paused.
-- Locks: the rows it looks at, skipping locked ones. Index: django_mq_message_ready.
-- Returns: the messages, in no order, and how many were seen before a suspect, or the bytes,
-- cut the batch. A suspect message is taken alone, and only with a free slot.
WITH {first}
{lease}
RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
