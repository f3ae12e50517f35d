-- Settles what was accepted and claims the next of one queue: settle_finished.sql, claim.sql and
-- next_due.sql as one statement, which is a transaction by itself. A busy worker runs nothing else.
-- Locks: the rows it removes, and those it looks at for the claim, skipping locked ones.
-- Index: the primary key, django_mq_message_ready, django_mq_message_due.
-- Returns: whether the session lives, seconds until the next message is due (0 or less: now), the ids
-- that were void, null for none, since they are repeated in every row, and a claimed message; one row with
-- nulls for it when there is none.
WITH {settled}, {first}, claimed AS (
    {lease}
    RETURNING m.id, m.claim, %(queue)s::text, {claimed_columns}, (SELECT count(*) FROM head)
)
{answer}
