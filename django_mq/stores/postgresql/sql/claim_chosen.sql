-- Leases chosen messages to a session.
-- Locks: the rows it changes; lock_chosen.sql has run. Index: the primary key.
-- Returns: the messages, in no order.
WITH chosen AS (SELECT unnest(%(ids)s::bigint[]) AS id)
{lease}
RETURNING m.id, m.claim, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), {claimed_columns}
