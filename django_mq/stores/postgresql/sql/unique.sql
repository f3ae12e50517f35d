-- name: limit_lock_waits. Limits the waits for locks in the open transaction.
-- Locks: nothing. Index: none. Returns: the limit before, and the limit.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(milliseconds)s::text, true)

-- name: restore_lock_waits. Sets the limit of waits for locks again that was before.
-- Locks: nothing. Index: none. Returns: the limit.
SELECT set_config('lock_timeout', %(before)s::text, true)

-- name: take_key. Takes a unique key that no row has. It limits the wait for locks, takes the key, and restores the
-- limit: the CTE is read first, and the answer made last.
-- Locks: the new row; waits for another transaction that takes the same key. Index: the digests of
-- django_mq_uniquekey. Returns: the id, and the limit; no row if the key has a row.
WITH limited AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', %(milliseconds)s::text, true)
), taken AS (
    INSERT INTO django_mq_uniquekey (digest, label, until, owner, message_id, first_at, ends_at)
    SELECT %(digest)s, %(label)s, %(until)s, %(owner)s, %(message_id)s, {now}, {ahead:seconds} FROM limited
    ON CONFLICT (digest) DO NOTHING
    RETURNING digest
)
SELECT taken.digest, set_config('lock_timeout', limited.before, true) FROM limited LEFT JOIN taken ON true

-- name: take_keys. Takes unique keys that have no row, in the order of their digests, as take_key does.
-- Locks: the new rows; waits for other transactions that take the same keys. Index: the digests of django_mq_uniquekey.
-- Returns: the digests that were taken, each with the limit; a null if none was.
WITH limited AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', %(milliseconds)s::text, true)
), taken AS (
    INSERT INTO django_mq_uniquekey ({key_columns})
    SELECT u.digest, u.label, u.until, u.owner, u.message_id, {now}, {after:u.seconds}
    FROM limited, unnest(
        %(digest)s::text[], %(label)s::text[], %(until)s::text[], %(owner)s::text[], %(message_id)s::uuid[],
        %(seconds)s::float8[]
    ) AS u(digest, label, until, owner, message_id, seconds)
    ORDER BY u.digest
    ON CONFLICT (digest) DO NOTHING
    RETURNING digest
)
SELECT taken.digest, set_config('lock_timeout', limited.before, true) FROM limited LEFT JOIN taken ON true

-- name: _first_key. Takes a unique key that no row has, or whose message is gone. A row that another transaction has
-- changed since the statement began is not taken over: the statement does not see the message of that transaction.
-- {it} is read before the wait for locks is limited.
INSERT INTO django_mq_uniquekey ({key_columns})
    SELECT {key_values}
    FROM {it}, django_mq_queue q
    WHERE q.name = %(queue_name)s AND NOT q.closed AND {read_committed}
        AND set_config('lock_timeout', CASE WHEN before IS NOT NULL THEN %(milliseconds)s::text END, true) IS NOT NULL
    {over_stale_key}
        AND django_mq_uniquekey.message_id = (
            SELECT seen.message_id FROM django_mq_uniquekey seen WHERE seen.digest = %(digest)s
        )
    RETURNING true AS is_taken
-- name: _first_message. Writes the message that has taken its key, ready at once, as append_at_once does.
INSERT INTO django_mq_message (
        {ready_columns})
    SELECT
        {ready_values}
    FROM taken, django_mq_queue q
    WHERE q.name = %(queue_name)s
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING id

-- name: append_first. Writes one message, and takes its unique key. It limits the wait for locks until the end of the
-- transaction, which is its own.
-- Locks: the row of the key, and the new message; waits for another transaction that takes the same key. Index: the
-- digests of django_mq_uniquekey, the unique name of django_mq_queue. Returns: whether the key was taken, and the id of the
-- message, null when the message id is taken; no row when nothing was written.
WITH taken AS (
    {first_key:(SELECT true) before}
), written AS (
    {first_message}
)
SELECT is_taken, (SELECT id FROM written) FROM taken

-- name: append_first_within. The same in the transaction of the caller: it sets the limit again that was before.
-- Locks: as append_first. Index: as append_first. Returns: as append_first, and the limit; nulls when nothing was written.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS lock_timeout
), taken AS (
    {first_key:before}
), written AS (
    {first_message}
)
SELECT taken.is_taken, (SELECT id FROM written), set_config('lock_timeout', before.lock_timeout, true)
FROM before LEFT JOIN taken ON true
