-- name: _given_keys. In the collation of the tables, or no index would serve.
JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    limit_name varchar(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]',
    limited_key varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) given

-- name: use_limits. Writes what keys of limits have used, and when to ask what waits for them.
-- Locks: the keys' rows; the claim lock is held. Index: django_mq_limitkey_once. Returns: nothing that is used.
INSERT INTO django_mq_limitkey (queue_name, limit_name, limited_key, free_at, seen_at, waiting_until)
SELECT %(queue)s, given.limit_name, given.limited_key, given.free_at, given.seen_at, given.waiting_until
FROM JSON_TABLE(%(states)s, '$[*]' COLUMNS (
    limit_name varchar(50) PATH '$[0]', limited_key varchar(255) PATH '$[1]', free_at double PATH '$[2]',
    seen_at double PATH '$[3]', waiting_until double PATH '$[4]')) AS given
ON DUPLICATE KEY UPDATE
    free_at = VALUES(free_at), seen_at = VALUES(seen_at), waiting_until = VALUES(waiting_until)

-- name: add_slots. Takes a slot for each message that a claim brings.
-- Locks: the new rows. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limitslot (queue_name, limit_name, limited_key, message_row, claim)
SELECT %(queue)s, given.limit_name, given.limited_key, given.message_row, given.claim
FROM JSON_TABLE(%(slots)s, '$[*]' COLUMNS (
    limit_name varchar(50) PATH '$[0]', limited_key varchar(255) PATH '$[1]', message_row bigint PATH '$[2]',
    claim bigint PATH '$[3]')) AS given

-- name: allow_key. Gives a key a rate or a number of its own.
-- Locks: the key's row. Index: django_mq_limitexception_once. Returns: nothing that is used.
INSERT INTO django_mq_limitexception (queue_name, limit_name, limited_key, amount, seconds, burst, at_once)
VALUES (%(queue)s, %(limit_name)s, %(limited_key)s, %(amount)s, %(in_all)s, %(burst)s, %(at_once)s)
ON DUPLICATE KEY UPDATE
    amount = VALUES(amount), seconds = VALUES(seconds), burst = VALUES(burst), at_once = VALUES(at_once)

-- name: prune_rates. Deletes keys of a queue that may be forgotten.
-- Locks: the rows it deletes. Index: django_mq_limitkey_waiting. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey WHERE {is_free} LIMIT %(limit)s

-- name: prune_left. Deletes keys of a queue whose limits no claim asks any more.
-- Locks: the rows it deletes. Index: django_mq_limitkey_waiting. Returns: one row per deleted row.
DELETE FROM django_mq_limitkey WHERE {is_left} LIMIT %(limit)s

-- name: prune_holds. Deletes holds that are over.
-- Locks: the rows it deletes. Index: django_mq_limithold_queue. Returns: one row per deleted row.
DELETE FROM django_mq_limithold WHERE queue_name = %(queue)s AND held_until < {seconds_now} LIMIT %(limit)s
