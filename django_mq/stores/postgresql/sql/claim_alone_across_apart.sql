-- Claims the next of several queues as claim_across_apart.sql does, when nothing is to be settled.
-- Locks: the rows it takes, skipping locked ones.
-- Index: django_mq_message_ready, the primary key, django_mq_message_due.
-- Returns: as claim_alone_across.sql.
WITH {first_apart}, claimed AS (
    {lease}
    RETURNING {claimed_across}, {seen_apart}, {rank}
)
{answer_alone}
