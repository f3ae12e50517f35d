-- Settles what was accepted and claims the next of several queues, as settle_and_claim.sql does.
-- Locks: the rows it removes, and those it takes, skipping locked ones.
-- Index: the primary key, django_mq_message_ready, django_mq_message_due.
-- Returns: as settle_and_claim.sql; the last column is the rank.
WITH {settled}, {first_across}, claimed AS (
    {lease}
    RETURNING m.id, m.claim, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), {claimed_columns},
        (SELECT sum(size)::int FROM parts), array_position(ARRAY(SELECT id FROM chosen ORDER BY rank), m.id)
)
{answer}
