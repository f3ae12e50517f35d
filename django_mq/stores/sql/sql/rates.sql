-- name: _running_slot. A slot s of a message that is claimed by the claim that took it, or whose run goes on.
(EXISTS (SELECT 1 FROM django_mq_message m WHERE m.id = s.message_row AND m.state + 0 = 2 AND m.claim = s.claim)
 OR EXISTS (
    SELECT 1 FROM django_mq_run r
    JOIN django_mq_workersession w ON w.id = r.session_id
    WHERE r.id = s.message_row AND r.claim = s.claim))

-- name: rates_facts
-- Reads what limits of a queue have used, what is held, what operators allow keys, and what runs. Keys of which
-- everything is free and for which nothing waits are left out.
-- Locks: nothing; the claim lock is held. Index: django_mq_limitkey_once, django_mq_limithold_queue,
-- django_mq_limitexception_once and django_mq_limitslot_queue; the primary keys of messages and runs, once for each
-- slot. Returns: rows of a kind, a limit, a key and four numbers:
-- 0: the time, in seconds since 1970.
-- 1: when all of the key is free again, the latest time that was seen, and when to ask what waits, null for nothing.
-- 2: until when nothing of the key begins.
-- 3: the amount, the seconds, the burst and the number at once of an exception.
-- 4: how many messages of the key run.
SELECT 0 AS kind, '' AS limit_name, '' AS limited_key, {seconds_now} AS a, 0e0 AS b, 0e0 AS c, 0 AS d
UNION ALL
SELECT 1, k.limit_name, k.limited_key, k.free_at, k.seen_at, k.waiting_until, 0
FROM django_mq_limitkey k
WHERE k.queue_name = %(queue)s AND (k.free_at > {seconds_now} OR k.waiting_until IS NOT NULL)
UNION ALL
SELECT 2, h.limit_name, h.limited_key, max(h.held_until), 0e0, 0e0, 0
FROM django_mq_limithold h WHERE h.queue_name = %(queue)s AND h.held_until > {seconds_now}
GROUP BY h.limit_name, h.limited_key
UNION ALL
SELECT 3, e.limit_name, e.limited_key, e.amount, e.seconds, e.burst, e.at_once
FROM django_mq_limitexception e WHERE e.queue_name = %(queue)s
UNION ALL
SELECT 4, s.limit_name, s.limited_key, count(*), 0e0, 0e0, 0
FROM django_mq_limitslot s WHERE s.queue_name = %(queue)s AND {running_slot}
GROUP BY s.limit_name, s.limited_key

-- name: running_keys. Counts the messages that run, by limit and key.
-- Locks: nothing. Index: django_mq_limitslot_queue, and the primary keys of messages and runs, once for each slot.
-- Returns: limit, key and count.
SELECT s.limit_name, s.limited_key, count(*)
FROM django_mq_limitslot s WHERE s.queue_name = %(queue)s AND {running_slot}
GROUP BY s.limit_name, s.limited_key

-- name: hold_key. Lets nothing of a key begin for a time.
-- Locks: the new row. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limithold (queue_name, limit_name, limited_key, held_until)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, {seconds_now} + %(hold_seconds)s{as:float8})

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

-- name: prune_rates. Deletes keys of which everything has been free for a minute, and for which nothing waits.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey
WHERE id {among:
    SELECT id FROM django_mq_limitkey WHERE free_at < {seconds_now} - 60 AND waiting_until IS NULL LIMIT %(limit)s}
RETURNING id

-- name: prune_holds. Deletes holds that are over.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limithold
WHERE id {among:SELECT id FROM django_mq_limithold WHERE held_until < {seconds_now} LIMIT %(limit)s}
RETURNING id

-- name: end_slots. Deletes slots whose messages are gone, or are claimed by another claim.
-- Locks: the rows it deletes; the claim lock is held. Index: django_mq_limitslot_queue, and the primary keys of messages
-- and runs, once for each slot. Returns: nothing that is used.
DELETE FROM django_mq_limitslot
WHERE queue_name = %(queue)s
  AND NOT EXISTS (
    SELECT 1 FROM django_mq_message m WHERE m.id = django_mq_limitslot.message_row AND m.claim = django_mq_limitslot.claim)
  AND NOT EXISTS (
    SELECT 1 FROM django_mq_run r WHERE r.id = django_mq_limitslot.message_row AND r.claim = django_mq_limitslot.claim)
