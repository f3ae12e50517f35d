-- Settles what was accepted and claims the next of several queues, as settle_and_claim.sql does.
-- Locks: the rows it removes, and those it takes, skipping locked ones.
-- Index: the primary key, django_mq_message_ready, django_mq_message_due.
-- Returns: as settle_and_claim.sql; the last column is the rank.
WITH {settled}, {first_across}, claimed AS (
    {lease}
    RETURNING {claimed_across}, {seen_across}, {rank}
)
{answer}
