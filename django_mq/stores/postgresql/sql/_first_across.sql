candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.turn <= walk.allowed AS within,
        -- Queues with limits of their own are locked apart, or one would use up what others may have.
        CASE WHEN %(apart)s THEN walk.position ELSE 0 END AS part,
        row_number() OVER (
            ORDER BY CASE WHEN %(listed)s THEN walk.position ELSE 0 END,
                     walk.urgency DESC, walk.turn, walk.position
        ) AS rank
    FROM (
        SELECT
            r.id, given.position, given.allowed,
            row_number() OVER own AS turn,
            min(r.priority) OVER own AS urgency
        FROM unnest(%(queues)s::text[], %(limits)s::bigint[]) WITH ORDINALITY AS given(name, allowed, position)
        JOIN django_mq_queue q ON q.name = given.name
            AND NOT (q.paused AND coalesce(q.paused_until > {now}, true))
            AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)
        CROSS JOIN LATERAL (
            SELECT c.id, c.priority, c.level, c.place
            FROM django_mq_message c
            WHERE c.state = 1 AND c.queue_id = q.id
            ORDER BY c.level DESC, c.place, c.id
            LIMIT %(candidates)s
        ) r
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id)
    ) walk
    WHERE walk.turn <= 4 * walk.allowed
), parts AS MATERIALIZED (
    SELECT part, count(*) AS size
    FROM (SELECT part FROM candidates WHERE within ORDER BY rank LIMIT %(credit)s) best
    GROUP BY part
), locked AS MATERIALIZED (
    SELECT taken.id, taken.suspect, taken.size_bytes, taken.rank
    FROM parts
    CROSS JOIN LATERAL (
        SELECT free.id, free.suspect, free.size_bytes, ordered.rank
        FROM (SELECT * FROM candidates WHERE part = parts.part ORDER BY rank) ordered
        CROSS JOIN LATERAL (
            SELECT m.id, m.suspect, octet_length(m.body) AS size_bytes FROM django_mq_message m
            WHERE m.id = ordered.id AND m.state + 0 = 1
            FOR UPDATE SKIP LOCKED
        ) free
        LIMIT parts.size
    ) taken
), chosen AS (
    SELECT id, rank
    FROM (
        SELECT
            id, suspect, rank,
            row_number() OVER (ORDER BY rank) AS turn,
            count(*) FILTER (WHERE suspect) OVER (ORDER BY rank) AS suspects,
            sum(size_bytes) OVER (ORDER BY rank) AS total_bytes
        FROM locked
    ) ranked
    WHERE (suspects = 0 AND (turn = 1 OR total_bytes <= %(max_bytes)s::bigint))
       OR (suspect AND turn = 1 AND %(slots)s::int > 0)
)
