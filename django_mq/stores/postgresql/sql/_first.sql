head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, octet_length(r.body) AS size_bytes
    FROM django_mq_message r
    WHERE r.state = 1 AND r.queue_id = (
        SELECT q.id FROM django_mq_queue q
        WHERE q.name = %(queue)s AND NOT {paused}
          AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s))
    ORDER BY r.level DESC, r.place, r.id
    LIMIT %(credit)s
    FOR UPDATE SKIP LOCKED
), {chosen}
