-- name: _running_slot. A slot s of a message that is claimed by the claim that took it, or whose run goes on.
(EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = s.message_row AND m.state + 0 = 2 AND m.claim = s.claim)
 OR EXISTS (
    SELECT 1 FROM django_mq_run r
    JOIN django_mq_workersession w ON w.id = r.session_id
    WHERE r.id = s.message_row AND r.claim = s.claim))

-- name: _this_key. The row {it} has the key of a limit that was given.
{it}.queue_name = %(queue)s AND {it}.limit_name = given.limit_name AND {it}.limited_key = given.limited_key

-- name: _of_key. The rows of one key, by an index.
django_mq_{it}

-- name: rates_facts
-- Reads what limits of a queue have used, what is held, what operators allow keys, and what runs; of each the first
-- rows up to the limit, and as many waiting keys whose time has come, or whose time the clock was set back before.
-- Locks: nothing; the claim lock is held. Index: django_mq_limitkey_once, django_mq_limitkey_waiting,
-- django_mq_limithold_key, django_mq_limitexception_once and django_mq_limitslot_queue; the primary keys of messages
-- and runs, and the key, once for each slot. Returns: rows of a kind, a limit, a key and four numbers:
-- 0: the time, in seconds since 1970, and when to ask the first waiting key whose time has not come.
-- 1: when all of the key is free again, the latest time that was seen, and when to ask what waits, null for nothing.
-- 2: until when nothing of the key begins, and for how many seconds that was to be.
-- 3: the amount, the seconds, the burst and the number at once of an exception.
-- 4: how many messages of the key run, and when to ask what waits.
-- 5: as 1, of a key whose time has come.
SELECT 0 AS kind, '' AS limit_name, '' AS limited_key, {seconds_now} AS a,
    (SELECT min(w.waiting_until) FROM django_mq_limitkey w
     WHERE w.queue_name = %(queue)s AND w.waiting_until > {seconds_now}) AS b, 0e0 AS c, 0 AS d
UNION ALL
SELECT 1, k.limit_name, k.limited_key, k.free_at, k.seen_at, k.waiting_until, 0
FROM (
    SELECT * FROM django_mq_limitkey WHERE queue_name = %(queue)s ORDER BY limit_name, limited_key LIMIT %(limit)s) k
UNION ALL
SELECT 5, k.limit_name, k.limited_key, k.free_at, k.seen_at, k.waiting_until, 0
FROM (
    SELECT * FROM django_mq_limitkey WHERE queue_name = %(queue)s AND waiting_until <= {seconds_now}
    ORDER BY waiting_until, id LIMIT %(limit)s) k
UNION ALL
SELECT 5, k.limit_name, k.limited_key, k.free_at, k.seen_at, k.waiting_until, 0
FROM (
    SELECT * FROM django_mq_limitkey WHERE queue_name = %(queue)s AND waiting_until > {seconds_now} + %(longest)s
    ORDER BY waiting_until LIMIT %(limit)s) k
UNION ALL
SELECT 2, h.limit_name, h.limited_key, h.held_until, h.seconds, 0e0, 0
FROM (
    SELECT * FROM django_mq_limithold WHERE queue_name = %(queue)s ORDER BY limit_name, limited_key LIMIT %(limit)s) h
UNION ALL
SELECT 3, e.limit_name, e.limited_key, e.amount, e.seconds, e.burst, e.at_once
FROM (
    SELECT * FROM django_mq_limitexception WHERE queue_name = %(queue)s
    ORDER BY limit_name, limited_key LIMIT %(limit)s) e
UNION ALL
SELECT 4, s.limit_name, s.limited_key, sum(CASE WHEN {running_slot} THEN 1 ELSE 0 END), 0e0, (
    SELECT k.waiting_until FROM django_mq_limitkey k
    WHERE k.queue_name = %(queue)s AND k.limit_name = s.limit_name AND k.limited_key = s.limited_key), 0
FROM django_mq_limitslot s WHERE s.queue_name = %(queue)s
GROUP BY s.limit_name, s.limited_key

-- name: rates_of_keys. Reads the same of single keys, but what runs.
-- Locks: nothing; the claim lock is held. Index: django_mq_limitkey_once, django_mq_limithold_key and
-- django_mq_limitexception_once, once for each key. Returns: rows of the kinds 0 to 3, as rates_facts.
SELECT 0 AS kind, '' AS limit_name, '' AS limited_key, {seconds_now} AS a, 0e0 AS b, 0e0 AS c, 0 AS d
UNION ALL
SELECT 1, k.limit_name, k.limited_key, k.free_at, k.seen_at, k.waiting_until, 0
FROM {given_keys} CROSS JOIN {of_key:limitkey} k WHERE {this_key:k}
UNION ALL
SELECT 2, h.limit_name, h.limited_key, h.held_until, h.seconds, 0e0, 0
FROM {given_keys} CROSS JOIN {of_key:limithold} h WHERE {this_key:h} AND h.held_until > {seconds_now}
UNION ALL
SELECT 3, e.limit_name, e.limited_key, e.amount, e.seconds, e.burst, e.at_once
FROM {given_keys} CROSS JOIN {of_key:limitexception} e WHERE {this_key:e}

-- name: running_keys. Counts the messages that run, by limit and key.
-- Locks: nothing. Index: django_mq_limitslot_queue, and the primary keys of messages and runs, once for each slot.
-- Returns: limit, key and count.
SELECT s.limit_name, s.limited_key, count(*)
FROM django_mq_limitslot s WHERE s.queue_name = %(queue)s AND {running_slot}
GROUP BY s.limit_name, s.limited_key

-- name: hold_key. Lets nothing of a key begin for a time.
-- Locks: the new row. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limithold (queue_name, limit_name, limited_key, held_until, seconds)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, {seconds_now} + %(hold_seconds)s{as:float8}, %(hold_seconds)s)

-- name: allow_key. Gives a key a rate or a number of its own.
-- Locks: the key's row. Index: django_mq_limitexception_once. Returns: nothing that is used.
INSERT INTO django_mq_limitexception (queue_name, limit_name, limited_key, amount, seconds, burst, at_once)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, %(amount)s, %(in_all)s, %(burst)s, %(at_once)s)
ON CONFLICT (queue_name, limit_name, limited_key) DO UPDATE
SET amount = excluded.amount, seconds = excluded.seconds, burst = excluded.burst, at_once = excluded.at_once

-- name: forbid_key. Takes what a key has of its own.
-- Locks: the row it deletes. Index: django_mq_limitexception_once. Returns: one row if there was one.
DELETE FROM django_mq_limitexception
WHERE queue_name = %(queue)s AND limit_name = %(limit_name)s AND limited_key = %(limited_key)s
{returning:id}

-- name: limited_queues. The first queue after this name of whose keys anything is known.
-- Locks: nothing. Index: django_mq_limitkey_once, django_mq_limithold_key and django_mq_limitslot_queue. Returns: one
-- name, null for none.
SELECT min(queue_name) FROM (
    SELECT min(queue_name) AS queue_name FROM django_mq_limitkey WHERE queue_name > %(after)s
    UNION ALL
    SELECT min(queue_name) FROM django_mq_limithold WHERE queue_name > %(after)s
    UNION ALL
    SELECT min(queue_name) FROM django_mq_limitslot WHERE queue_name > %(after)s) names

-- name: _is_free. A key of which everything has been free for a while, and for which nothing waits.
queue_name = %(queue)s AND waiting_until IS NULL AND free_at < {seconds_now} - %(kept)s

-- name: _is_left. The same of a key for which something waited that has come back by itself. An older release writes 0
-- for what waits for a slot.
queue_name = %(queue)s AND waiting_until > 0 AND waiting_until < {seconds_now} - %(parked)s
  AND free_at < {seconds_now} - %(kept)s

-- name: prune_rates. Deletes keys of a queue that may be forgotten.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_limitkey_waiting. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey WHERE id {among:SELECT id FROM django_mq_limitkey WHERE {is_free} LIMIT %(limit)s}
RETURNING id

-- name: prune_left. Deletes keys of a queue whose limits no claim asks any more.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_limitkey_waiting. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey WHERE id {among:SELECT id FROM django_mq_limitkey WHERE {is_left} LIMIT %(limit)s}
RETURNING id

-- name: prune_holds. Deletes holds that are over.
-- Locks: the rows it deletes, skipping locked ones. Index: django_mq_limithold_queue. Returns: one row per deleted row.
DELETE FROM django_mq_limithold WHERE id {among:
    SELECT id FROM django_mq_limithold WHERE queue_name = %(queue)s AND held_until < {seconds_now} LIMIT %(limit)s}
RETURNING id

-- name: _is_over. A slot {it} whose message is gone, or is claimed by another claim.
NOT EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = {it}.message_row AND m.claim = {it}.claim)
AND NOT EXISTS (SELECT 1 FROM django_mq_run r WHERE r.id = {it}.message_row AND r.claim = {it}.claim)

-- name: over_slots. Finds slots of a queue that are over, of keys for which nothing waits: those are asked by their slots.
-- Locks: nothing: a slot is written with the claim of its message, and both are read as of one moment. Index:
-- django_mq_limitslot_queue; the primary keys of messages and runs, and django_mq_limitkey_once, once for each slot.
-- Returns: ids.
SELECT s.id FROM django_mq_limitslot s WHERE s.queue_name = %(queue)s AND {is_over:s} AND NOT EXISTS (
    SELECT 1 FROM django_mq_limitkey k
    WHERE k.queue_name = s.queue_name AND k.limit_name = s.limit_name AND k.limited_key = s.limited_key
      AND k.waiting_until IS NOT NULL)
LIMIT %(limit)s

-- name: drop_slots. Deletes slots that are over.
-- Locks: the rows. Index: the primary key. Returns: nothing that is used.
DELETE FROM django_mq_limitslot WHERE id {in:ids}

-- name: end_slots. Deletes the slots of a queue that are over.
-- Locks: the rows it deletes; the claim lock is held. Index: django_mq_limitslot_queue, and the primary keys of messages
-- and runs, once for each slot. Returns: nothing that is used.
DELETE FROM django_mq_limitslot
WHERE queue_name = %(queue)s AND {is_over:django_mq_limitslot}
