-- name: _in
IN %({it})s
-- name: _in_groups
IN %(groups)s
-- name: _in_other_groups
(m.group_key IS NULL OR coalesce(m.group_key NOT IN %(groups)s, true))
-- name: _by
FORCE INDEX ({it})
-- name: _for_share
LOCK IN SHARE MODE
-- name: _returning. The store answers with one row for each that a statement touched.
-- name: _unless_taken. A row that is there already is an error, which the store takes for no row.
-- name: _at
CAST(%({it})s AS DATETIME(6))
-- name: _after
{now} + INTERVAL round(least({it}, 2e11) * 1000000) MICROSECOND
-- name: _ahead
{now} + INTERVAL round(%({it})s * 1000000) MICROSECOND
-- name: _seconds_now. The time, in seconds since 1970.
(timestampdiff(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', {now}) / 1e6)
-- name: _past_grace
%(running_seconds)s > %(grace_seconds)s
-- name: _last_number. The last number that can be seen, by the primary key.
SELECT coalesce(max(id), 0) FROM django_mq_{it}
-- name: _levels
(SELECT 0 AS level UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)
-- name: _given_counters
JSON_TABLE(%(counters)s, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', level INT PATH '$.level', fair_key VARCHAR(32) PATH '$.fair_key',
    finish BIGINT PATH '$.finish', seen BIGINT PATH '$.seen')) AS given
