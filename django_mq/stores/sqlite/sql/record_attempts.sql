-- Remembers failed attempts of messages that are still rows here, after their settlement.
-- A delivery that was not counted is the one after those that were.
-- Locks: the database for writing. Index: the primary key of django_mq_message.
-- Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, detail, traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type,
       m.attempts + (NOT json_extract(given.value, '$.counted')), {now}, %(worker)s,
       json_extract(given.value, '$.errors'), json_extract(given.value, '$.details'),
       json_extract(given.value, '$.tracebacks')
FROM json_each(%(given)s) AS given
CROSS JOIN django_mq_message m ON m.id = json_extract(given.value, '$.ids')
CROSS JOIN django_mq_queue q ON q.id = m.queue_id
