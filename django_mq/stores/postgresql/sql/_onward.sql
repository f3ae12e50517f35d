head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, r.size_bytes AS size_bytes
    FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.suspect, m.level, m.place, octet_length(m.body) AS size_bytes
        FROM django_mq_message m
        WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
          AND m.queue_id = (
            SELECT q.id FROM django_mq_queue q
            WHERE q.name = %(queue)s AND NOT {paused}
              AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s))
        ORDER BY m.place, m.id
        LIMIT %(credit)s
        FOR UPDATE SKIP LOCKED
    ) r
    LIMIT %(credit)s
), {chosen}
