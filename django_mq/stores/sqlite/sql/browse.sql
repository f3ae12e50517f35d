-- name: _longest_waiting
(SELECT (julianday({now}) - julianday(min(waiting.since))) * 86400.0
     FROM (
        SELECT {since} AS since
        FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]') AS levels
        JOIN (SELECT -9223372036854775808 AS first, -1 AS last UNION ALL SELECT 0, 9223372036854775807) AS part
        JOIN django_mq_message m ON m.id IN (
            SELECT head.id FROM django_mq_message head
            WHERE head.queue_id = q.id AND head.state = 1 AND head.level = levels.value
              AND head.place BETWEEN part.first AND part.last
            ORDER BY head.place, head.id LIMIT %(read)s)
        UNION ALL
        SELECT (
            SELECT ahead.published_at
            FROM (
                SELECT m.published_at, {since} AS since FROM django_mq_message m
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.value AND m.place >= 0
                ORDER BY m.place, m.id LIMIT %(limit)s
            ) ahead
            WHERE ahead.since = ahead.published_at LIMIT 1)
        FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]') AS levels
        UNION ALL
        SELECT (
            SELECT ahead.since
            FROM (
                SELECT m.released_at, {since} AS since FROM django_mq_message m
                WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.value AND m.place < 0
                ORDER BY m.place, m.id LIMIT %(limit)s
            ) ahead
            WHERE ahead.released_at IS NULL LIMIT 1)
        FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]') AS levels
        UNION ALL
        SELECT tail.since
        FROM (
            SELECT {since} AS since FROM django_mq_message m
            WHERE m.queue_id = q.id AND m.state = 1 AND q.sort_key <> ''
            ORDER BY m.level, m.place DESC, m.id DESC LIMIT %(read)s
        ) tail
        UNION ALL
        SELECT min(m.deliver_at) FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
     ) waiting)

-- name: _since
max(coalesce(m.deliver_at, m.published_at), m.published_at, coalesce(m.released_at, m.published_at))

-- name: count_unknown. Counts messages in an unknown state, stopping at the limit.
-- Locks: nothing. Index: the partial indexes of a queue's states: where they hold as many as there are, no row is
-- looked at. Returns: the count.
SELECT CASE
    WHEN (SELECT count(*) FROM django_mq_message)
       = (SELECT count(*) FROM django_mq_message WHERE state = 0)
       + (SELECT count(*) FROM django_mq_message WHERE state = 1)
       + (SELECT count(*) FROM django_mq_message WHERE state = 2)
       + (SELECT count(*) FROM django_mq_message WHERE state = 3)
       + (SELECT count(*) FROM django_mq_message WHERE state = 7)
    THEN 0
    ELSE (SELECT count(*) FROM (SELECT 1 FROM django_mq_message WHERE state NOT IN (0, 1, 2, 3, 7) LIMIT %(limit)s))
END
