head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place, octet_length(r.body) AS size_bytes
    FROM django_mq_message r
    WHERE r.state = 1 AND r.queue_id = (
        SELECT id FROM django_mq_queue
        WHERE name = %(queue)s AND NOT (paused AND coalesce(paused_until > {now}, true))
          AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s))
    ORDER BY r.level DESC, r.place, r.id
    LIMIT %(credit)s
    FOR UPDATE SKIP LOCKED
), {chosen}
