candidates AS MATERIALIZED (
    SELECT
        walk.id, walk.position, walk.turn,
        row_number() OVER (
            ORDER BY CASE WHEN %(listed)s THEN walk.position ELSE 0 END,
                     walk.urgency DESC, walk.turn, walk.position
        ) AS rank
    FROM (
        SELECT
            r.id, given.position,
            row_number() OVER own AS turn,
            min(r.priority) OVER own AS urgency
        FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS given(name, position)
        JOIN django_mq_queue q ON q.name = given.name
            AND NOT {paused}
            AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s)
        CROSS JOIN LATERAL (
            SELECT c.id, c.priority, c.level, c.place
            FROM django_mq_message c
            WHERE c.state = 1 AND c.queue_id = q.id
            ORDER BY c.level DESC, c.place, c.id
            LIMIT %(candidates)s
        ) r
        WINDOW own AS (PARTITION BY q.id ORDER BY r.level DESC, r.place, r.id ROWS UNBOUNDED PRECEDING)
    ) walk
)
