-- name: _given_keys
(SELECT value ->> 0 AS limit_name, value ->> 1 AS limited_key FROM json_array_elements(%(keys)s::json)) given

-- name: _of_key. The rows of one key, by an index also where a plan must suit any queue.
LATERAL (
    SELECT * FROM django_mq_{it} WHERE queue_name = %(queue)s AND limit_name = given.limit_name AND limited_key = given.limited_key
    OFFSET 0)

-- name: use_limits. Writes what keys of limits have used, and when to ask what waits for them.
-- Locks: the keys' rows; the claim lock is held. Index: django_mq_limitkey_once. Returns: nothing that is used.
INSERT INTO django_mq_limitkey (queue_name, limit_name, limited_key, free_at, seen_at, waiting_until)
SELECT %(queue)s, given.value ->> 0, given.value ->> 1, (given.value ->> 2)::float8, (given.value ->> 3)::float8,
       (given.value ->> 4)::float8
FROM json_array_elements(%(states)s::json) AS given(value)
ON CONFLICT (queue_name, limit_name, limited_key) DO UPDATE
SET free_at = excluded.free_at, seen_at = excluded.seen_at, waiting_until = excluded.waiting_until

-- name: add_slots. Takes a slot for each message that a claim brings.
-- Locks: the new rows. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_limitslot (queue_name, limit_name, limited_key, message_row, claim)
SELECT %(queue)s, given.value ->> 0, given.value ->> 1, (given.value ->> 2)::bigint, (given.value ->> 3)::bigint
FROM json_array_elements(%(slots)s::json) AS given(value)
