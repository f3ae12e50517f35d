-- Leases the first ready messages of several queues, merged by message priority; queues whose
-- heads are equal take turns (or, when listed, follow the order of the list).
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue.
-- A message ranks by the least priority at or before it in its queue, so that no queue's own
-- order is broken, and no queue gives more than its own limit. More candidates are read than asked for, to step over rows locked by others.
-- state + 0 keeps the look at one row from walking the index of all ready ones.
-- Returns: the messages, in no order; the last columns are how many were seen, and the rank.
WITH {first_across}
{lease}
RETURNING m.id, m.claim, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), {claimed_columns},
    (SELECT sum(size)::int FROM parts), array_position(ARRAY(SELECT id FROM chosen ORDER BY rank), m.id)
