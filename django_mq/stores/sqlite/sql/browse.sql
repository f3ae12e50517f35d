-- name: _longest_waiting
(SELECT (julianday({now}) - julianday(min(waiting.since))) * 86400.0
     FROM (
        SELECT max(coalesce(oldest.deliver_at, oldest.published_at), oldest.published_at) AS since
        FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]') AS levels
        JOIN django_mq_message oldest ON oldest.id = (
            SELECT m.id FROM django_mq_message m
            WHERE m.queue_id = q.id AND m.state = 1 AND m.level = levels.value
            ORDER BY m.place, m.id LIMIT 1)
        UNION ALL
        SELECT min(m.deliver_at) FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}
     ) waiting)

-- name: count_unknown. Counts messages in an unknown state, stopping at the limit.
-- Locks: nothing. Index: the four partial indexes of a queue's states: where they hold as many as there are, no row is
-- looked at. Returns: the count.
SELECT CASE
    WHEN (SELECT count(*) FROM django_mq_message)
       = (SELECT count(*) FROM django_mq_message WHERE state = 0)
       + (SELECT count(*) FROM django_mq_message WHERE state = 1)
       + (SELECT count(*) FROM django_mq_message WHERE state = 2)
       + (SELECT count(*) FROM django_mq_message WHERE state = 3)
    THEN 0
    ELSE (SELECT count(*) FROM (SELECT 1 FROM django_mq_message WHERE state NOT IN (0, 1, 2, 3) LIMIT %(limit)s))
END
