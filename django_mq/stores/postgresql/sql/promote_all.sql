-- Makes due messages of every queue ready, earliest of each queue first.
-- Locks: the rows it promotes, skipping locked ones. Index: django_mq_message_due.
-- The array keeps the plan on the primary key even when it cannot know the limit.
-- Returns: one row per promoted message.
UPDATE django_mq_message
SET state = 1
WHERE id = ANY(ARRAY(
    SELECT due.id
    FROM django_mq_queue q
    CROSS JOIN LATERAL (
        SELECT d.id FROM django_mq_message d
        WHERE d.queue_id = q.id AND d.state = 0 AND d.deliver_at <= {now}
        ORDER BY d.deliver_at
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) due))
RETURNING id
