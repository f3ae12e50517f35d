-- Settles what was accepted and claims the next of one queue, as settle_and_claim.sql does, beginning
-- in each level behind the place up to which the session knows that nothing is ready. What has been
-- deleted before that place may still be in the index, by the million, and is not walked over.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones.
-- Index: the primary key, django_mq_message_ready entered once per level, django_mq_message_due.
-- Returns: as settle_and_claim.sql.
WITH {settled}, {onward}, claimed AS (
    {lease}
    RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
)
{answer}
