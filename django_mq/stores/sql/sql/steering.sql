-- name: find_unheld. Finds a chunk of unclaimed messages of a queue, dead ones if asked, none newer than an id.
-- Locks: nothing. Index: django_mq_message_ready, _due, _parked and _dead, one walk each. The order makes it walk the index of
-- each state, for any statistics; for the dead the range does, because the order of ids alone would be the
-- primary key's too. Returns: ids.
WITH q AS (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
SELECT id FROM (
    {branch}SELECT m.id FROM django_mq_message m
     WHERE m.state = 1 AND m.queue_id = (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT m.id FROM django_mq_message m
     WHERE m.state = 0 AND m.queue_id = (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.deliver_at LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT m.id FROM django_mq_message m
     WHERE m.state = 7 AND m.queue_id = (SELECT id FROM q) AND m.id <= %(newest)s
     ORDER BY m.park_key LIMIT %(limit)s)
    UNION ALL
    {branch}SELECT m.id FROM django_mq_message m
     WHERE %(dead)s AND m.state = 3 AND m.queue_id BETWEEN (SELECT id FROM q) AND (SELECT id FROM q)
       AND m.id <= %(newest)s
     ORDER BY m.queue_id, m.id LIMIT %(limit)s)
) unheld
LIMIT %(limit)s

-- name: release_held. Takes claimed messages away from their sessions and makes them ready.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = 1, redelivered = true, released_at = {now}, attempts = attempts - suspect{as:int},
    session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id {in:ids} AND state = 2
{returning:id}

-- name: deliver_now. Makes scheduled messages ready; their due places keep them in due order. A value that was published
-- for a later time is due now; due_values finds it.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message AS d
SET state = CASE WHEN {early} THEN 0 ELSE 1 END, deliver_at = {now}
WHERE d.id {in:ids} AND d.state = 0
{returning:id}

-- name: reschedule. Gives scheduled or ready messages another time of delivery; a past time makes them ready.
-- A value of a last-value queue keeps its time.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message AS m
SET state = CASE WHEN n.deliver_at > {now} THEN 0 ELSE 1 END, deliver_at = n.deliver_at, place = {place_again}
FROM django_mq_queue q
CROSS JOIN (SELECT {at:deliver_at} AS deliver_at) n
WHERE q.id = m.queue_id AND m.id {in:ids} AND m.state < 2 AND m.value_key IS NULL
RETURNING {own_id}

-- name: _place_again. The place of a message with another time of delivery; a sorted queue does not look at times.
CASE WHEN q.sort_key = '' THEN {place} ELSE m.place END

-- name: redrive_dead. Makes dead messages ready again, attempts restarting, in their old place.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = 1, attempts = 0, suspect = false, redelivered = true, released_at = {now}, dead_reason = '', dead_at = NULL,
    expires_at = NULL, claim = NULL
WHERE id {in:ids} AND state = 3
{returning:id}

-- name: set_header. Gives unclaimed messages a header with this whole number.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET headers = {headers_with_number}
WHERE id {in:ids} AND state <> 2
{returning:id}

-- name: remove_header. Removes a header of unclaimed messages.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET headers = {headers_without}
WHERE id {in:ids} AND state <> 2
{returning:id}

-- name: _copy_with_priority. Writes messages m again at the tail of their new level, with the priority of n.
INSERT INTO django_mq_message (
    queue_id, meets, state, level, place, priority, attempts, redelivered, suspect, message_id, type,
    correlation_id, group_key, value_key, published_at, deliver_at, released_at, expires_at, dead_reason, content_type,
    content_encoding, headers, properties, told_to, body)
SELECT
    q.id, {unasked}, m.state, {level:n.priority}, CASE WHEN m.state = 0 OR q.sort_key <> '' THEN m.place ELSE 0 END, n.priority, m.attempts,
    m.redelivered, m.suspect, m.message_id, m.type, m.correlation_id, m.group_key, m.value_key, m.published_at,
    m.deliver_at, m.released_at, m.expires_at, m.dead_reason, m.content_type, m.content_encoding, m.headers, m.properties, m.told_to, m.body

-- name: bury. Marks ready, scheduled and parked messages dead, in place.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = 3, dead_reason = %(reason)s, dead_at = {now}, suspect = false, park_key = NULL, parked_until = NULL
WHERE id {in:ids} AND state IN (0, 1, 7)
{returning:id}

-- name: _delivered_before. The same as is_delivered_before() in django_mq/engine/states.py.
(n.redelivered OR n.state = 3)

-- name: _copy_to_tail. Writes messages n again at the tail of the queue q; attempts restart.
INSERT INTO django_mq_message (
    {message_columns}, released_at)
SELECT
    q.id, {unasked}, CASE WHEN n.state = 0 THEN 0 ELSE 1 END, {level:n.priority}, CASE WHEN n.state = 0 THEN {place} ELSE 0 END,
    n.priority, 0, {delivered_before}, false, n.message_id, n.type, n.correlation_id, n.group_key,
    n.published_at, CASE WHEN n.state = 0 THEN n.deliver_at END, CASE WHEN NOT q.no_expiry THEN n.expires_at END, '', n.content_type,
    n.content_encoding, n.headers, n.properties, n.told_to, n.body, {now}

-- name: coming. Finds unheld messages that are not in a queue yet, to be moved there.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key, django_mq_message_once. Returns: id,
-- message id, bytes of the body, headers and state, in delivery order.
SELECT m.id, m.message_id, {size_bytes}, m.headers{as:text}, m.state
FROM django_mq_message m
WHERE m.id {in:ids} AND m.state <> 2 AND m.queue_id <> %(queue_id)s
  AND NOT EXISTS (
    SELECT 1 FROM django_mq_message t WHERE t.message_id = m.message_id AND t.queue_id = %(queue_id)s)
ORDER BY m.level DESC, m.place, m.id {skip_locked}

-- name: standing. Finds where messages are.
-- Locks: nothing. Index: the primary key. Returns: id, message id and queue.
SELECT m.id, m.message_id, q.name
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.id {in:ids}

-- name: standing_again. Finds where messages are that may have other row ids now, and copies of them.
-- Locks: nothing. Index: django_mq_message_once. Returns: id, message id and queue.
SELECT m.id, m.message_id, q.name
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id
WHERE m.message_id {in_uuids:message_ids}

-- name: moved_here. Finds messages that have been moved to a queue.
-- Locks: nothing. Index: django_mq_message_once. Returns: id and message id.
SELECT id, message_id FROM django_mq_message WHERE message_id {in_uuids:message_ids} AND queue_id = %(queue_id)s

-- name: _copy_dead. Writes dead messages n again in the queue q; attempts restart, and some columns are given.
INSERT INTO django_mq_message (
    {ready_columns})
SELECT
    q.id, {unasked}, 1, {level:n.priority}, 0, n.priority, 0, false, false, n.message_id, n.type, n.correlation_id, n.group_key, {now},
    {queue_expiry}, {given_cause}, n.content_type, n.content_encoding, {given_headers}, n.told_to, n.body

-- name: _sends_expired. Whether a queue q sends expired messages somewhere: as destination() in
-- django_mq/engine/decisions/dead_letters.py.
(q.expiry_queue_id IS NOT NULL OR {sends_dropped:q.})

-- name: _sends_dropped. The same for messages that a ring replaces, for a queue with this prefix.
{it}dead_letter_exchange <> ''

-- name: dying. Locks dead messages whose queue sends its dead, expired or replaced messages somewhere, and reads all but
-- their bodies. To ask for the state would invite the planner to walk the index of the dead.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: the columns of DeadLetter, by arrival.
SELECT
    m.id, m.message_id, (SELECT q.name FROM django_mq_queue q WHERE q.id = m.queue_id), m.headers{as:text},
    m.properties{as:text}, m.attempts, m.dead_reason, m.dead_at
FROM django_mq_message m
WHERE m.id {in:ids} AND m.dead_at IS NOT NULL
  AND m.queue_id IN (SELECT q.id FROM django_mq_queue q WHERE q.dead_letter_queue_id IS NOT NULL OR {sends_expired})
ORDER BY m.id {skip_locked}
