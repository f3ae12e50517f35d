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
-- Returns: one row: the digests that were taken, null for all, and the limit.
WITH limited AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', %(milliseconds)s::text, true)
), taken AS (
    INSERT INTO django_mq_uniquekey ({key_columns})
    SELECT u.digest, u.label, u.until, u.owner, u.message_id, {now}, {after:u.seconds}
    FROM limited, unnest(
        %(digest)s::text[], %(label)s::text[], %(until)s::text[], %(owner)s::text[], %(message_id)s::uuid[],
        %(seconds)s::float8[]
    ) AS u(digest, label, until, owner, message_id, seconds)
    ON CONFLICT (digest) DO NOTHING
    RETURNING digest
), answer AS (
    SELECT CASE WHEN count(*) < %(amount)s THEN coalesce(array_agg(digest), ARRAY[]::text[]) END AS digests FROM taken
)
SELECT answer.digests, set_config('lock_timeout', limited.before, true) FROM limited, answer

-- name: _first_key. Takes a unique key. The wait for locks is limited after {it} was read.
INSERT INTO django_mq_uniquekey ({key_columns})
    SELECT {key_values} FROM {it}
    WHERE {read_committed}
        AND set_config('lock_timeout', CASE WHEN before IS NOT NULL THEN %(milliseconds)s::text END, true) IS NOT NULL
-- name: _over_unchanged_key. As over_stale_key. A row that another transaction has changed since the statement began is
-- not taken over: the statement does not see the message of that transaction.
{over_stale_key}
        AND django_mq_uniquekey.message_id = (
            SELECT seen.message_id FROM django_mq_uniquekey seen WHERE seen.digest = %(digest)s
        )
-- name: _limited_within. The limit of the wait for locks that was before, and the key.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS lock_timeout
), taken AS (
-- name: _first_message. Whether the key had a row, and the message that has taken it, ready at once, as append_at_once
-- writes it.
    RETURNING NOT xmax = 0 AS had_row
), written AS (
    INSERT INTO django_mq_message (
        {ready_columns})
    SELECT
        {ready_values}
    FROM taken, django_mq_queue q
    WHERE q.name = %(queue_name)s AND NOT q.closed
    ON CONFLICT (message_id, queue_id) DO NOTHING
    RETURNING id
)
-- name: _first_within. The answer; it sets the limit again that was before.
SELECT taken.had_row, (SELECT id FROM written), set_config('lock_timeout', before.lock_timeout, true)
FROM before LEFT JOIN taken ON true

-- name: append_first. Writes one message, and takes its unique key, which no row has. It limits the wait for locks until
-- the end of the transaction, which is its own.
-- Locks: the row of the key, and the new message; waits for another transaction that takes the same key. Index: the
-- digests of django_mq_uniquekey, the unique name of django_mq_queue. Returns: whether the key had a row, and the id of the
-- message, null when the queue is unknown or closed, or the message id is taken; no row when nothing was written.
WITH taken AS (
    {first_key:(SELECT true) before}
    ON CONFLICT (digest) DO NOTHING
    {first_message}
SELECT had_row, (SELECT id FROM written) FROM taken

-- name: append_over. The same with a unique key that no row has, or whose message is gone: which it takes longer to ask.
-- Locks: as append_first. Index: as append_first, and django_mq_message_once and django_mq_run_message. Returns: as
-- append_first.
WITH taken AS (
    {first_key:(SELECT true) before}
    {over_unchanged_key}
    {first_message}
SELECT had_row, (SELECT id FROM written) FROM taken

-- name: append_first_within. As append_first, in the transaction of the caller.
-- Locks: as append_first. Index: as append_first. Returns: as append_first, and the limit; nulls when nothing was written.
{limited_within}
    {first_key:before}
    ON CONFLICT (digest) DO NOTHING
    {first_message}
{first_within}

-- name: append_over_within. As append_over, in the transaction of the caller.
-- Locks: as append_over. Index: as append_over. Returns: as append_first_within.
{limited_within}
    {first_key:before}
    {over_unchanged_key}
    {first_message}
{first_within}
