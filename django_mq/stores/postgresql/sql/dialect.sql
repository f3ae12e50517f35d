-- name: _as
::{it}
-- name: _in
= ANY(%({it})s::bigint[])
-- name: _in_texts
= ANY(%({it})s::text[])
-- name: _in_uuids
= ANY(%({it})s::text[]::uuid[])
-- name: _among. The array is made once, and skips locked rows: an IN may run again for every row, and exceed the
-- limit.
= ANY(ARRAY({it} FOR UPDATE SKIP LOCKED))
-- name: _in_groups
= ANY(%(groups)s::text[])
-- name: _in_other_groups
(m.group_key IS NULL OR m.group_key <> ALL(%(groups)s::text[]))
-- name: _at
%({it})s::timestamptz
-- name: _after
{now} + {it} * interval '1 second'
-- name: _ahead
{after:%({it})s::float8}
-- name: _ago
{now} - interval '{it}'
-- name: _seconds_now. The time, in seconds since 1970.
extract(epoch FROM {now})::float8
-- name: _past_grace. Whether the server has run for longer than the grace that follows a start.
pg_postmaster_start_time() < {now} - %(grace_seconds)s * interval '1 second'
-- name: _read_committed. Whether the statement sees every queue that was deleted before it began. Above READ COMMITTED
-- a transaction sees the queues of its own beginning. So a statement that writes messages locks the queue there, which
-- fails where the queue has been deleted since.
current_setting('transaction_isolation') = 'read committed'
-- name: _sees_commits
{read_committed}
-- name: _given_counters
jsonb_to_recordset(%(counters)s::jsonb) AS given(id bigint, level int, fair_key text, finish bigint, seen bigint)

-- name: _last_number. The last number that was given, whether or not its transaction has committed; the last that is
-- committed, where the role may not read the sequence.
SELECT CASE
    WHEN has_sequence_privilege(pg_get_serial_sequence('django_mq_{it}', 'id'), 'USAGE, SELECT')
    THEN coalesce(pg_sequence_last_value(pg_get_serial_sequence('django_mq_{it}', 'id')::regclass), 0)
    ELSE (SELECT coalesce(max(id), 0) FROM django_mq_{it}) END
