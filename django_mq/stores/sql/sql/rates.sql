-- name: rates_facts
-- Reads what limits of a queue have used, what is held, and what operators allow keys. Keys of which everything is free
-- are left out.
-- Locks: nothing; the claim lock is held. Index: django_mq_limitkey_once, django_mq_limithold_queue and
-- django_mq_limitexception_once. Returns: rows of a kind, a limit, a key and three numbers:
-- 0: the time, in seconds since 1970.
-- 1: when all of the key is free again, and the latest time that was seen.
-- 2: until when nothing of the key begins.
-- 3: the amount, the seconds and the burst of an exception.
SELECT 0 AS kind, '' AS limit_name, '' AS limited_key, {seconds_now} AS a, 0e0 AS b, 0e0 AS c
UNION ALL
SELECT 1, k.limit_name, k.limited_key, k.free_at, k.seen_at, 0e0
FROM django_mq_limitkey k WHERE k.queue_name = %(queue)s AND k.free_at > {seconds_now}
UNION ALL
SELECT 2, h.limit_name, h.limited_key, h.held_until, 0e0, 0e0
FROM django_mq_limithold h WHERE h.queue_name = %(queue)s AND h.held_until > {seconds_now}
UNION ALL
SELECT 3, e.limit_name, e.limited_key, e.amount, e.seconds, e.burst
FROM django_mq_limitexception e WHERE e.queue_name = %(queue)s

-- name: use_rate. Writes what a key of a limit has used.
-- Locks: the key's row; the claim lock is held. Index: django_mq_limitkey_once. Returns: nothing that is used.
INSERT INTO django_mq_limitkey (queue_name, limit_name, limited_key, free_at, seen_at)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, %(free_at)s, %(seen_at)s)
ON CONFLICT (queue_name, limit_name, limited_key) DO UPDATE SET free_at = excluded.free_at, seen_at = excluded.seen_at

-- name: hold_key. Lets nothing of a key begin for a time.
-- Locks: the new row. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limithold (queue_name, limit_name, limited_key, held_until)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, {seconds_now} + %(hold_seconds)s{as:float8})

-- name: allow_key. Gives a key a rate of its own; forbid_key has run.
-- Locks: the new row. Index: django_mq_limitexception_once. Returns: nothing that is used.
INSERT INTO django_mq_limitexception (queue_name, limit_name, limited_key, amount, seconds, burst)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, %(amount)s, %(in_all)s, %(burst)s)

-- name: forbid_key. Takes the rate of its own from a key.
-- Locks: the row it deletes. Index: django_mq_limitexception_once. Returns: one row if there was one.
DELETE FROM django_mq_limitexception
WHERE queue_name = %(queue)s AND limit_name = %(limit_name)s AND limited_key = %(limited_key)s
{returning:id}

-- name: prune_rates. Deletes keys of which everything has been free for a minute.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey
WHERE id {among:SELECT id FROM django_mq_limitkey WHERE free_at < {seconds_now} - 60 LIMIT %(limit)s}
RETURNING id

-- name: prune_holds. Deletes holds that are over.
-- Locks: the rows it deletes, skipping locked ones. No index: the table is small. Returns: one row per deleted row.
DELETE FROM django_mq_limithold
WHERE id {among:SELECT id FROM django_mq_limithold WHERE held_until < {seconds_now} LIMIT %(limit)s}
RETURNING id
