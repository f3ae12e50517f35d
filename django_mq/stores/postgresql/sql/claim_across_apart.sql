-- Leases as claim_across.sql does, where a queue has a limit below the credit: no queue gives more than its limit.
-- Each queue is locked apart, or one would use up what others may have; that costs more.
-- Locks: the rows it takes, skipping locked ones. Index: django_mq_message_ready, one walk per queue.
-- Returns: as claim_across.sql.
WITH {first_apart}
{lease}
RETURNING {claimed_across}, {seen_apart}, {rank}
