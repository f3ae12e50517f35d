-- Claims the next of several queues when nothing is to be settled, as claim_alone.sql does of one.
-- Locks: the rows it takes, skipping locked ones.
-- Index: django_mq_message_ready, the primary key, django_mq_message_due.
-- Returns: as settle_and_claim.sql; the last column is the rank, and nothing was void.
WITH {first_across}, claimed AS (
    {lease}
    RETURNING {claimed_across}, {seen_across}, {rank}
)
{answer_alone}
