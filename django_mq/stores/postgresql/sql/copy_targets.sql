-- Looks up what copied messages get from their queues and from the database, since COPY has no
-- expressions: the time in microseconds since 2000, the options that decide places and times, and row ids.
-- Nothing is written. But whoever names a table to write into has it locked before the first row is
-- read: a queue found here cannot be deleted before its messages are committed.
-- Locks: the message table as any write does, against lock_messages.sql alone; the queues against deletion above
-- READ COMMITTED.
-- Index: the unique name of django_mq_queue.
-- Returns: a row for each of the queues that is known and open; the ids are the same in all of them, and null
-- where the role may not use the sequence. An INSERT that leaves the id out needs no privilege on it.
WITH nothing AS (
    INSERT INTO django_mq_message SELECT m.* FROM django_mq_message m WHERE false
)
SELECT
    q.name, q.id,
    (extract(epoch FROM {now}) * 1000000)::bigint - 946684800000000,
    q.kind, q.levels, q.due_order, q.min_ttl_seconds, q.max_ttl_seconds, q.ttl_seconds,
    CASE WHEN has_sequence_privilege(pg_get_serial_sequence('django_mq_message', 'id'), 'USAGE')
         THEN ARRAY(SELECT nextval((SELECT pg_get_serial_sequence('django_mq_message', 'id')::regclass))
                    FROM generate_series(1, %(amount)s::int)) END
FROM django_mq_queue q
WHERE q.name = ANY(%(names)s::text[]) AND NOT q.closed
    AND ({read_committed} OR EXISTS (SELECT FROM django_mq_queue still WHERE still.id = q.id FOR KEY SHARE))
