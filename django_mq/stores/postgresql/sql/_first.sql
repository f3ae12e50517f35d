head AS MATERIALIZED (
    SELECT r.id, r.suspect, r.level, r.place
    FROM django_mq_message r
    WHERE r.state = 1 AND r.queue_id = (
        SELECT id FROM django_mq_queue
        WHERE name = %(queue)s AND NOT (paused AND coalesce(paused_until > {now}, true))
          AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE id = %(session)s))
    ORDER BY r.level DESC, r.place, r.id
    LIMIT %(credit)s
    FOR UPDATE SKIP LOCKED
), chosen AS (
    SELECT id
    FROM (
        SELECT
            id, suspect,
            row_number() OVER delivery AS rank,
            count(*) FILTER (WHERE suspect) OVER delivery AS suspects
        FROM head
        WINDOW delivery AS (ORDER BY level DESC, place, id)
    ) ranked
    WHERE suspects = 0 OR (suspect AND rank = 1 AND %(slots)s::int > 0)
)
