SELECT extract(epoch FROM min(due.deliver_at) - {now})::float8
FROM django_mq_queue q
CROSS JOIN LATERAL (
    SELECT d.deliver_at FROM django_mq_message d
    WHERE d.queue_id = q.id AND d.state = 0
    ORDER BY d.deliver_at
    LIMIT 1
) due
WHERE q.name = ANY(%(queues)s::text[])
