-- name: _in
IN (SELECT value FROM json_each(%({it})s))
-- name: _among
IN ({it})
-- name: _in_groups
IN (SELECT value FROM json_each(%(groups)s))
-- name: _in_other_groups
(m.group_key IS NULL OR m.group_key NOT IN (SELECT value FROM json_each(%(groups)s)))
-- name: _branch
SELECT * FROM (
-- name: _for_update. One connection writes at a time: there is no row to lock.
-- name: _for_share. As for_update.
-- name: _skip_locked. As for_update.
-- name: _own_id
id
-- name: _at
%({it})s
-- name: _after. The text of a time so many seconds ahead.
strftime('%%Y-%%m-%%d %%H:%%M:%%S', (%(now_microseconds)s + CAST({it} * 1000000 AS INTEGER)) / 1000000, 'unixepoch')
    || printf('.%%06d', (%(now_microseconds)s + CAST({it} * 1000000 AS INTEGER)) %% 1000000)
-- name: _ahead
%({it}_from_now)s
-- name: _ago
datetime({now}, '-{it}')
-- name: _microseconds. Of a time's text, since 1970.
CAST(strftime('%%s', substr({it}, 1, 19)) AS INTEGER) * 1000000 + CAST(substr({it}, 21, 6) AS INTEGER)
-- name: _seconds_now. The time, in seconds since 1970.
(%(now_microseconds)s / 1000000.0)
-- name: _past_grace. A database that is a file has no start.
true
-- name: _tail. The last number that was given to a row of a table.
(SELECT seq FROM sqlite_sequence WHERE name = 'django_mq_{it}')
-- name: _last_number. The last number that was given. There is one writer at a time.
SELECT coalesce({tail:{it}}, 0)
-- name: _given_counters
(SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.level') AS level,
    json_extract(value, '$.fair_key') AS fair_key, json_extract(value, '$.finish') AS finish,
    json_extract(value, '$.seen') AS seen FROM json_each(%(counters)s)) AS given
