-- name: _given_keys
(SELECT value ->> 0 AS limit_name, value ->> 1 AS limited_key FROM json_each(%(keys)s)) given

-- name: use_limits. Writes what keys of limits have used, and when to ask what waits for them.
-- Locks: the database for writing. Index: django_mq_limitkey_once. Returns: nothing that is used.
INSERT INTO django_mq_limitkey (queue_name, limit_name, limited_key, free_at, seen_at, waiting_until)
SELECT %(queue)s, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3, given.value ->> 4
FROM json_each(%(states)s) AS given WHERE TRUE
ON CONFLICT (queue_name, limit_name, limited_key) DO UPDATE
SET free_at = excluded.free_at, seen_at = excluded.seen_at, waiting_until = excluded.waiting_until

-- name: add_slots. Takes a slot for each message that a claim brings.
-- Locks: the database for writing. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limitslot (queue_name, limit_name, limited_key, message_row, claim)
SELECT %(queue)s, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3
FROM json_each(%(slots)s) AS given
