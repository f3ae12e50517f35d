-- Moves dead messages to their queue's dead-letter queue, or its expiry queue, where it names one: attempts restart,
-- the origin stands in the headers; headers that are no JSON become the text of one. Without such a queue, or when
-- it is there already, they stay where they are.
-- Locks: the database for writing. Index: the primary key.
-- Returns: one row per message.
UPDATE OR IGNORE django_mq_message AS m
SET id = {tail} + moving.rank, queue_id = moving.target_id, value_key = NULL, state = 1, level = moving.level,
    place = 0, attempts = 0, redelivered = 0, suspect = 0, published_at = {now}, deliver_at = NULL, expires_at = moving.expires_at, dead_at = NULL, claim = NULL,
    headers = json_set(
        CASE WHEN json_valid(m.headers) THEN m.headers ELSE json_object('x-damaged-headers', m.headers) END,
        '$."x-origin-queue"', moving.origin_name, '$."x-origin-attempts"', m.attempts,
        '$."x-dead-reason"', m.dead_reason, '$."x-dead-at"', replace(m.dead_at, ' ', 'T') || '+00:00')
FROM (
    SELECT
        n.id, q.id AS target_id, origin.name AS origin_name, {level} AS level, {queue_expiry} AS expires_at,
        row_number() OVER (ORDER BY n.id) AS rank
    FROM django_mq_message n
    JOIN django_mq_queue origin ON origin.id = n.queue_id
    JOIN django_mq_queue q ON q.id = CASE WHEN %(expired)s THEN origin.expiry_queue_id ELSE origin.dead_letter_queue_id END AND NOT q.closed
    WHERE n.id IN (SELECT value FROM json_each(%(ids)s)) AND n.state = 3
) moving
WHERE m.id = moving.id
RETURNING id
