-- Leases those of the chosen messages that can be locked, with what becomes the session's: a slot of the queue of some
-- messages, the groups of others. Of one line, nothing behind a message that could not be locked.
-- Locks: the rows it returns, skipping locked ones, and the new ones of django_mq_ownership. Index: the primary key.
-- Returns: the id of each that could be locked, and the message, nulls where it was not leased; in no order.
WITH free AS MATERIALIZED (
    SELECT m.id FROM django_mq_message m WHERE m.id = ANY(%(ids)s::bigint[]) AND m.state + 0 = 1
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT walk.id
    FROM (
        SELECT given.id, bool_and(free.id IS NOT NULL) OVER (PARTITION BY given.line ORDER BY given.rank) AS is_free
        FROM unnest(%(ids)s::bigint[], %(lines)s::bigint[]) WITH ORDINALITY AS given(id, line, rank)
        LEFT JOIN free ON free.id = given.id
    ) walk
    WHERE walk.is_free
), owned AS (
    INSERT INTO django_mq_ownership (queue_id, group_key, session_id)
    SELECT DISTINCT m.queue_id, CASE WHEN given.is_group THEN m.group_key END, %(session)s::bigint
    FROM (
        SELECT unnest(%(slots)s::bigint[]) AS id, false AS is_group
        UNION ALL SELECT unnest(%(groups)s::bigint[]), true
    ) given
    JOIN django_mq_message m ON m.id = given.id
    WHERE given.id IN (SELECT chosen.id FROM chosen)
), claimed AS (
    {lease}
    RETURNING {claimed_across}
)
SELECT free.id, claimed.* FROM free LEFT JOIN claimed ON claimed.id = free.id
