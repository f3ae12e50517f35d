-- Claims the next of one queue when nothing is to be settled: settle_and_claim.sql without its first half, which
-- would open the history and its indexes for nothing. What a worker runs that was idle until just now.
-- Locks: the rows it looks at for the claim, skipping locked ones.
-- Index: django_mq_message_ready, the primary key, django_mq_message_due.
-- Returns: as settle_and_claim.sql; nothing was void.
WITH {first}, claimed AS (
    {lease}
    RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
)
{answer_alone}
