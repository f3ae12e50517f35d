-- Settles what was accepted and claims the next of several queues as claim_across_apart.sql does.
-- Locks: the rows it removes, and those it takes, skipping locked ones.
-- Index: the primary key, django_mq_message_ready, django_mq_message_due.
-- Returns: as settle_and_claim_across.sql.
WITH {settled}, {first_apart}, claimed AS (
    {lease}
    RETURNING {claimed_across}, {seen_apart}, {rank}
)
{answer}
