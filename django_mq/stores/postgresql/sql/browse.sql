-- name: _longest_waiting
(SELECT extract(epoch FROM {now} - min(waiting.since))::float8
     FROM (
        SELECT greatest(oldest.deliver_at, oldest.published_at) AS since
        FROM generate_series(0, 9) AS levels(level)
        CROSS JOIN LATERAL (
            SELECT m.deliver_at, m.published_at FROM django_mq_message m
            WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level
            ORDER BY m.place, m.id LIMIT 1
        ) oldest
        UNION ALL
        (SELECT m.deliver_at FROM django_mq_message m
         WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
         ORDER BY m.deliver_at LIMIT 1)
     ) waiting)
