-- Counts what one minute brought: by outcome, as 0 what arrived, as -1 attempts that failed.
-- What arrived is finished since, or is here and younger than the mark.
-- Locks: nothing. Index: django_mq_history_pruning, the message table's primary key, django_mq_attempt_pruning.
-- With each goes how many of them were deliveries of a message that had been delivered before: what is finished says
-- so itself; what failed was not the message's first attempt, or killed a worker, which counts from the second time on.
-- Returns: queue, kind, number, redeliveries among them; a queue and kind may come twice.
SELECT queue_name, outcome, count(*), count(CASE WHEN redelivered AND claimed_at IS NOT NULL THEN 1 END)
FROM django_mq_history
WHERE finished_at >= %(start)s AND finished_at < %(end)s
GROUP BY queue_name, outcome
UNION ALL
SELECT queue_name, 0, count(*), 0 FROM django_mq_history
WHERE finished_at >= %(start)s AND published_at >= %(start)s AND published_at < %(end)s
GROUP BY queue_name
UNION ALL
SELECT q.name, 0, count(*), 0 FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id > %(mark)s AND m.published_at >= %(start)s AND m.published_at < %(end)s
GROUP BY q.name
UNION ALL
SELECT queue_name, -1, count(*),
    count(CASE WHEN message_id IS NOT NULL AND (number > 1 OR error = %(lost)s) THEN 1 END)
FROM django_mq_attempt
WHERE failed_at >= %(start)s AND failed_at < %(end)s
GROUP BY queue_name
