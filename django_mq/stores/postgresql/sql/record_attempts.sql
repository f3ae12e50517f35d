-- Remembers failed attempts of messages that are still rows here, after their settlement.
-- A delivery that was not counted is the one after those that were.
-- Locks: the new rows. Index: the primary key of django_mq_message.
-- Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, detail, traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type, m.attempts + (NOT given.counted)::int, {now}, %(worker)s,
       given.error, given.detail, given.traceback
FROM unnest(%(ids)s::bigint[], %(counted)s::bool[], %(errors)s::text[], %(details)s::text[], %(tracebacks)s::text[])
    AS given(id, counted, error, detail, traceback)
JOIN django_mq_message m ON m.id = given.id
JOIN django_mq_queue q ON q.id = m.queue_id
