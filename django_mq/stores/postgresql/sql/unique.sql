-- name: limit_lock_waits. Limits the waits for locks in the open transaction.
-- Locks: nothing. Index: none. Returns: the limit before, and the limit.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(milliseconds)s::text, true)

-- name: restore_lock_waits. Sets the limit of waits for locks again that was before.
-- Locks: nothing. Index: none. Returns: the limit.
SELECT set_config('lock_timeout', %(before)s::text, true)

-- name: take_key. Takes a unique key that no row has. It limits the wait for locks, takes the key, and restores the
-- limit: the CTE is read first, and the answer made last.
-- Locks: the new row; waits for another transaction that takes the same key. Index: the unique digest of
-- django_mq_uniquekey. Returns: the id, and the limit; no row if the key has a row.
WITH limited AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', %(milliseconds)s::text, true)
), taken AS (
    INSERT INTO django_mq_uniquekey (digest, label, until, owner, message_id, first_at, ends_at)
    SELECT %(digest)s, %(label)s, %(until)s, %(owner)s, %(message_id)s, {now}, {ahead:seconds} FROM limited
    ON CONFLICT (digest) DO NOTHING
    RETURNING id
)
SELECT taken.id, set_config('lock_timeout', limited.before, true) FROM limited LEFT JOIN taken ON true
