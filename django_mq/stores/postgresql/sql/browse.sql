-- name: _longest_waiting
(SELECT extract(epoch FROM {now} - min(waiting.since))::float8
     FROM (
        SELECT head.since
        FROM generate_series(0, 9) AS levels(level)
        CROSS JOIN LATERAL (
            (SELECT {since} AS since FROM django_mq_message m
             WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level AND m.place < 0
             ORDER BY m.place, m.id LIMIT %(read)s)
            UNION ALL
            (SELECT {since} FROM django_mq_message m
             WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level AND m.place >= 0
             ORDER BY m.place, m.id LIMIT %(read)s)
        ) head
        UNION ALL
        SELECT coalesce(
            (SELECT CASE WHEN {since} = m.published_at THEN m.published_at END FROM django_mq_message m
             WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level AND m.place >= 0
             ORDER BY m.place, m.id LIMIT 1),
            (SELECT ahead.published_at
             FROM (
                SELECT m.published_at, {since} AS since FROM django_mq_message m
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level AND m.place >= 0
                ORDER BY m.place, m.id LIMIT %(limit)s
             ) ahead
             WHERE ahead.since = ahead.published_at LIMIT 1))
        FROM generate_series(0, 9) AS levels(level)
        UNION ALL
        SELECT due.since
        FROM generate_series(0, 9) AS levels(level)
        CROSS JOIN LATERAL (
            SELECT ahead.since
            FROM (
                SELECT m.released_at, {since} AS since FROM django_mq_message m
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.level AND m.place < 0
                ORDER BY m.place, m.id LIMIT %(limit)s
            ) ahead
            WHERE ahead.released_at IS NULL LIMIT 1
        ) due
        UNION ALL
        (SELECT {since} FROM django_mq_message m
         WHERE m.queue_id = q.id AND m.state = 1 AND q.sort_key <> ''
         ORDER BY m.level, m.place DESC, m.id DESC LIMIT %(read)s)
        UNION ALL
        (SELECT m.deliver_at FROM django_mq_message m
         WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
         ORDER BY m.deliver_at LIMIT 1)
     ) waiting)

-- name: _since
greatest(m.deliver_at, m.published_at, m.released_at)
