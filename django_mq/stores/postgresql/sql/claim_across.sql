-- Leases the first ready messages of several queues, merged by message priority; queues whose
-- heads are equal take turns (or, when listed, follow the order of the list).
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue.
-- A message ranks by the least priority at or before it in its queue, so that no queue's own
-- order is broken. More candidates are read than asked for, to step over rows locked by others.
-- state + 0 keeps the look at one row from walking the index of all ready ones.
-- Returns: the messages, in no order; the last columns are how many were seen, and the rank.
WITH {first_across}
{lease}
RETURNING {claimed_across}, {seen_across}, {rank}
