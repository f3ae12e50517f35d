-- name: _counted. A suspect's attempt was counted when the message was claimed, any other one is counted when it is
-- settled.
m.attempts + CASE WHEN given.counted AND NOT m.suspect THEN 1 WHEN m.suspect AND NOT given.counted THEN -1 ELSE 0 END

-- name: settle_released. Gives claimed messages back to their places, at once or after a delay. A delay that is not
-- counted as an attempt is counted among the properties: the doctor looks there.
-- Locks: the rows it changes. Index: the primary key. Fenced as settle_finished. Returns: the ids that were still held.
UPDATE django_mq_message AS m
SET state = CASE WHEN given.delay_seconds > 0 THEN 0 ELSE 1 END,
    deliver_at = CASE WHEN given.delay_seconds > 0 THEN {later} ELSE m.deliver_at END, attempts = {counted},
    suspect = m.suspect AND NOT given.counted, redelivered = true, released_at = {now}, session_id = NULL, claim = NULL, claimed_at = NULL,
    properties = CASE WHEN given.delay_seconds > 0 AND NOT given.counted THEN {released_once_more} ELSE m.properties END
FROM {released}
WHERE {by_id} m.id = given.id AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING {own_id}

-- name: settle_dead. Marks claimed messages dead, in place.
-- Locks: the rows it changes. Index: the primary key. Fenced as settle_finished. Returns: the ids that were still held.
UPDATE django_mq_message AS m
SET state = 3, dead_reason = given.reason, dead_at = {now}, attempts = {counted},
    suspect = false, session_id = NULL, claim = NULL, claimed_at = NULL
FROM {buried}
WHERE {by_id} m.id = given.id AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING {own_id}

-- name: release_unknown. Gives back, uncounted, the messages of a session that it does not know of.
-- Locks: the rows it changes. Index: django_mq_message_claimed. Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = attempts - suspect{as:int}, released_at = {now}, session_id = NULL, claim = NULL,
    claimed_at = NULL
WHERE state = 2 AND session_id = %(session)s AND (NOT (id {in:held})) IS NOT FALSE
{returning:id}

-- name: _taken_back. Undoes what release_held_by_expired did. MariaDB changes the columns from left to right, so that a column
-- is read before it changes.
suspect = CASE WHEN m.session_id IS NULL THEN m.claim < 0 ELSE m.suspect END,
    dead_reason = CASE WHEN m.state = 3 THEN '' ELSE m.dead_reason END, dead_at = NULL,
    claim = abs(m.claim), session_id = %(session)s, released_at = NULL, park_key = NULL, parked_until = NULL, state = 2

-- name: record_attempt. Remembers one failed attempt reported apart from its settlement.
-- Locks: the new row. Returns: nothing.
INSERT INTO django_mq_attempt (
    message_id, correlation_id, queue_name, type, number, failed_at, worker, error, error_path, detail,
    traceback)
VALUES (%(message_id)s, %(correlation_id)s, %(queue_name)s, %(type)s, %(number)s, {now}, %(worker)s,
        %(error)s, %(error_path)s, %(detail)s, %(traceback)s)

-- name: _worker_name. The name of a session, for failed attempts.
coalesce((SELECT w.name FROM django_mq_workersession w WHERE w.id = %(session)s), %(nameless)s)

-- name: mark. Writes which listenings are told the ends of a message that a session holds, or has held last.
-- Locks: the row it changes. Index: the primary key. Returns: one row if the message has the claim token.
UPDATE django_mq_message SET told_to = %(told_to)s
WHERE id = %(id)s AND coalesce(session_id, %(session)s) = %(session)s AND abs(claim) = %(claim)s
{returning:id}

-- name: hold. Locks a message that a session holds, or has held last.
-- Locks: the row. Index: the primary key. Returns: its id if the message has the claim token.
SELECT id FROM django_mq_message
WHERE id = %(id)s AND coalesce(session_id, %(session)s) = %(session)s AND abs(claim) = %(claim)s
{for_update}

-- name: _mark. A marked message as it is before its end: id, listenings, message id, queue, type, headers, properties,
-- body, content type and content encoding.
m.id, m.told_to, m.message_id, q.name, m.type, m.headers{as:text}, m.properties{as:text}, m.body, m.content_type,
m.content_encoding

-- name: marked. Reads which of these messages have ends that are told.
-- Locks: nothing. Index: the primary key. Returns: the marked messages.
SELECT {mark}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids} AND m.told_to IS NOT NULL

-- name: marked_of_session. Reads which messages of a session have ends that are told.
-- Locks: nothing. Index: django_mq_message_claimed. Returns: the marked messages.
SELECT {mark}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.state = 2 AND m.session_id = %(session)s AND m.told_to IS NOT NULL
