-- Remembers one failed attempt of a message that is still a row here, after its settlement.
-- A delivery that was not counted is the one after those that were.
-- Locks: the new row. Index: the primary key of django_mq_message.
-- Returns: one row.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, detail, traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type, m.attempts + (NOT %(counted)s), {now}, %(worker)s,
       %(error)s, %(detail)s, %(traceback)s
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id = %(id)s
