-- name: _freed. What makes a parked message ready in its place.
state = 1, park_key = NULL, parked_until = NULL, released_at = {now}

-- name: _parked_now. What parks a message that no session holds.
state = 7, park_key = %(key)s, parked_until = {ahead:seconds}

-- name: park. Takes ready messages out of the ready index, for one key.
-- Locks: the rows it changes, skipping locked ones. Index: the primary key. Returns: the ids.
UPDATE django_mq_message SET {parked_now}
WHERE id {among:SELECT r.id FROM django_mq_message r WHERE r.id {in:ids} AND r.state + 0 = 1}
RETURNING id

-- name: free. Makes the first parked messages of a key ready.
-- Locks: the rows it changes, skipping locked ones. Index: django_mq_message_parked. Returns: one row per message.
UPDATE django_mq_message SET {freed}
WHERE id {among:
    SELECT p.id FROM django_mq_message p
    WHERE p.state = 7 AND p.park_key = %(key)s
      AND p.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s)
    ORDER BY p.level DESC, p.place, p.id LIMIT %(limit)s}
RETURNING id

-- name: free_chosen. Makes chosen messages ready that are parked.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET {freed} WHERE id {in:ids} AND state + 0 = 7 {returning:id}

-- name: settle_parked. Parks claimed messages, uncounted, each until its key is freed, or for a time as well.
-- Locks: the rows it changes. Index: the primary key. Fenced as settle_finished. Returns: the ids that were still held.
UPDATE django_mq_message AS m
SET state = 7, park_key = given.park_key, parked_until = CASE WHEN given.delay_seconds > 0 THEN {later} END,
    attempts = m.attempts - m.suspect{as:int}, redelivered = true, session_id = NULL, claim = NULL, claimed_at = NULL
FROM {settled_aside}
WHERE {by_id} m.id = given.id AND m.session_id = %(session)s AND m.claim = given.claim
RETURNING {own_id}
