-- Claims as claim_alone.sql does, beginning in each level where settle_and_claim_onward.sql begins.
-- Locks: the rows it looks at for the claim, skipping locked ones.
-- Index: django_mq_message_ready entered once per level, the primary key, django_mq_message_due.
-- Returns: as settle_and_claim.sql; nothing was void.
WITH {onward}, claimed AS (
    {lease}
    RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
)
{answer_alone}
