-- Counts what one minute brought: by outcome, as 0 what arrived, as -1 attempts that failed.
-- What arrived is finished since, or is here and younger than the mark.
-- Locks: nothing. Index: django_mq_history_pruning, the message table's primary key, django_mq_attempt_pruning.
-- Returns: queue, kind, number; a queue and kind may come twice.
SELECT queue_name, outcome, count(*) FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s
GROUP BY queue_name, outcome
UNION ALL
SELECT queue_name, 0, count(*) FROM django_mq_history
WHERE finished_at >= %(start)s AND published_at >= %(start)s AND published_at < %(end)s
GROUP BY queue_name
UNION ALL
SELECT q.name, 0, count(*) FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id > %(mark)s AND m.published_at >= %(start)s AND m.published_at < %(end)s
GROUP BY q.name
UNION ALL
SELECT queue_name, -1, count(*) FROM django_mq_attempt
WHERE failed_at >= %(start)s AND failed_at < %(end)s
GROUP BY queue_name
