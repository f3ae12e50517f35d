-- name: _counted. As elsewhere, for rows of which all are counted or none.
attempts + (%(counted)s AND NOT suspect) - (suspect AND NOT %(counted)s)

-- name: lock_held. Locks messages that a session claimed. Fenced by the session, which only a claimed row has; the
-- caller compares the claim tokens.
-- Locks: the rows it returns. Index: the primary key. Returns: id and claim token.
SELECT id, claim FROM django_mq_message FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND session_id = %(session)s
ORDER BY id FOR UPDATE

-- name: settle_released. Gives messages that lock_held locked back to their places, at once or after a delay. A
-- suspect's attempt was counted when it was claimed: it is taken back when uncounted. The columns change from left to
-- right here, so that suspect must come after attempts. A delay that is not counted as an attempt is counted among the
-- properties: the doctor looks there.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = CASE WHEN %(delay_seconds)s > 0 THEN 0 ELSE 1 END,
    deliver_at = CASE WHEN %(delay_seconds)s > 0
                      THEN {now} + INTERVAL round(%(delay_seconds)s * 1000000) MICROSECOND ELSE deliver_at END,
    attempts = {counted}, suspect = suspect AND NOT %(counted)s,
    redelivered = true, released_at = {now}, session_id = NULL, claim = NULL, claimed_at = NULL,
    properties = CASE WHEN %(delay_seconds)s > 0 AND NOT %(counted)s
                      THEN JSON_SET(coalesce(properties, JSON_OBJECT()), '$.mq_releases',
                                    CAST(coalesce(JSON_EXTRACT(properties, '$.mq_releases'), 0) AS UNSIGNED) + 1)
                      ELSE properties END
WHERE id IN %(ids)s

-- name: settle_dead. Marks messages dead, in place, that lock_held locked.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now},
    attempts = {counted}, suspect = false, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s

-- name: drop_messages. Deletes messages that this transaction has locked.
-- Locks: the rows it deletes. Index: the primary key. Returns: one row per message.
DELETE FROM django_mq_message WHERE id IN %(ids)s

-- name: lock_given_back. Locks messages that were taken from a session because its deadline had passed, and those that
-- it holds; the caller compares the claim tokens, without their signs. Claimed, moved, settled or retried since, a
-- message has lost its token.
-- Locks: the rows it returns. Index: the primary key. Returns: id and claim token.
SELECT id, abs(claim) FROM django_mq_message FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND coalesce(session_id, %(session)s) = %(session)s AND claim IS NOT NULL
ORDER BY id FOR UPDATE

-- name: retake. Gives a session back what lock_given_back locked.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message m SET {taken_back} WHERE id IN %(ids)s

-- name: record_attempts. Remembers one failed attempt of a message that is still a row here, after its settlement. A
-- delivery that was not counted is the one after those that were.
-- Locks: the new row. Index: the primary key of django_mq_message. Returns: one row.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, error_path, detail,
    traceback)
SELECT m.message_id, m.correlation_id, q.name, m.type, m.attempts + (NOT %(counted)s), {now}, {worker_name},
       %(error)s, %(error_path)s, %(detail)s, %(traceback)s
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id = %(id)s
