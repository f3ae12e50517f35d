-- Leases chosen messages to a session.
-- Locks: the rows it changes; lock_chosen.sql has run. Index: the primary key.
-- Returns: the messages, in no order.
WITH chosen AS (SELECT unnest(%(ids)s::bigint[]) AS id)
{lease}
RETURNING {claimed_across}
