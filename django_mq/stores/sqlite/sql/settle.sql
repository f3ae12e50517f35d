-- name: _held
FROM json_each(%(held)s) AS given
CROSS JOIN json_each(given.value) AS one
CROSS JOIN django_mq_message gone ON gone.id = one.value
    AND gone.claim = CAST(given.key AS INTEGER) AND gone.state = 2 AND gone.session_id = %(session)s

-- name: _given
json_extract(value, '$.ids') AS id, json_extract(value, '$.claims') AS claim, json_extract(value, '$.counted') AS counted
-- name: _buried
(SELECT {given}, json_extract(value, '$.reason') AS reason FROM json_each(%(given)s)) given
-- name: _released
(SELECT {given}, json_extract(value, '$.delay_seconds') AS delay_seconds, json_extract(value, '$.delay_seconds_from_now') AS later
      FROM json_each(%(given)s)) given
-- name: _by_id. The given rows are asked for one by one.
-- name: _later
given.later
-- name: _released_once_more
json_set(coalesce(m.properties, json_object()), '$.mq_releases', coalesce(json_extract(m.properties, '$.mq_releases'), 0) + 1)

-- name: settle_finished. Removes claimed messages for good; remember_finished has run.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token. Returns: the ids that
-- were still held.
DELETE FROM django_mq_message WHERE id IN (SELECT gone.id {held}) RETURNING id

-- name: retake. Gives a session back what was taken from it because its deadline had passed, unless the message was
-- claimed, moved, settled or retried since: otherwise it still has the token of the session's claim.
-- Locks: the database for writing. Index: the primary key. Returns: the ids, those included that the session holds
-- anyway.
WITH given AS MATERIALIZED (
    SELECT one.value AS id, CAST(claims.key AS INTEGER) AS claim
    FROM json_each(%(held)s) AS claims
    CROSS JOIN json_each(claims.value) AS one
)
UPDATE django_mq_message AS m
SET {taken_back}
FROM given
WHERE m.id = given.id AND m.id IN (SELECT id FROM given)
  AND coalesce(m.session_id, %(session)s) = %(session)s AND abs(m.claim) = given.claim
RETURNING id

-- name: record_attempts. Remembers failed attempts of messages that are still rows here, after their settlement. A
-- delivery that was not counted is the one after those that were.
-- Locks: the database for writing. Index: the primary key of django_mq_message. Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, error_path, detail,
    traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type,
       m.attempts + (NOT json_extract(given.value, '$.counted')), {now}, {worker_name},
       json_extract(given.value, '$.errors'), json_extract(given.value, '$.error_paths'),
       json_extract(given.value, '$.details'), json_extract(given.value, '$.tracebacks')
FROM json_each(%(given)s) AS given
CROSS JOIN django_mq_message m ON m.id = json_extract(given.value, '$.ids')
CROSS JOIN django_mq_queue q ON q.id = m.queue_id
