-- name: isolation. Reads the default isolation of transactions.
-- Locks: nothing. Returns: the level's name.
SELECT current_setting('default_transaction_isolation')

-- name: backend. Asks which server process runs this connection's statements.
-- Locks: nothing. Returns: its process id.
SELECT pg_backend_pid()

-- name: reset_connection. Makes a connection as it was when Django had connected, with its time zone.
-- DISCARD ALL without DEALLOCATE ALL: what the driver has prepared stays, with its plans. To look for what SQL has
-- prepared would cost twice as much as all of this.
-- Locks: nothing; releases the advisory locks of the connection. Returns: nothing of use.
CLOSE ALL;
SET SESSION AUTHORIZATION DEFAULT;
RESET ROLE;
RESET ALL;
UNLISTEN *;
DISCARD TEMP;
DISCARD SEQUENCES;
SELECT pg_advisory_unlock_all(), set_config('TimeZone', %(time_zone)s, false)

-- name: assume_role. Takes the role that Django takes when it has connected.
-- Locks: nothing. Returns: its name.
SELECT set_config('role', %(role)s, false)

-- name: space. Reads the size of each of our tables on the disk, and how well it is vacuumed.
-- Locks: nothing. Reads catalogues and statistics only, no message. An index is compared with what its entries would
-- take in a new one, nine tenths full: eight bytes and four for each, and its columns' average widths in steps of
-- eight. Returns: table, bytes with indexes, bytes of indexes beyond what a new one would take, rows and dead rows by
-- the statistics, seconds since the last vacuum, and the table's own settings.
SELECT
    c.relname::text,
    pg_total_relation_size(c.oid),
    coalesce((
        SELECT sum(greatest(0, pg_relation_size(i.indexrelid)
            - 8192 * (2 + ceil(ic.reltuples * (12 + 8 * ceil(w.width / 8.0)) / 0.9 / 8150))))::bigint
        FROM pg_index i
        JOIN pg_class ic ON ic.oid = i.indexrelid AND ic.reltuples >= 0
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(coalesce(st.avg_width, 8)), 8) AS width
            FROM unnest(i.indkey::int2[]) AS k(number)
            LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
            LEFT JOIN pg_stats st
                ON st.schemaname = n.nspname AND st.tablename = c.relname AND st.attname = a.attname
        ) w
        WHERE i.indrelid = c.oid
    ), 0),
    greatest(s.n_live_tup, 0), greatest(s.n_dead_tup, 0),
    extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
    coalesce(array_to_string(c.reloptions, ', '), '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relkind = 'r' AND c.relname LIKE 'django\_mq\_%%' AND pg_table_is_visible(c.oid)
ORDER BY c.relname

-- name: shape. Reads which columns and indexes our tables have.
-- Locks: nothing. Reads catalogues only. Returns: table, and the name of a column or index.
SELECT c.relname::text, a.attname::text
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND c.relname LIKE 'django\_mq\_%%' AND pg_table_is_visible(c.oid)
UNION ALL
SELECT c.relname::text, ic.relname::text
FROM pg_class c
JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_class ic ON ic.oid = i.indexrelid
WHERE c.relname LIKE 'django\_mq\_%%' AND pg_table_is_visible(c.oid)

-- name: see_present. Makes the transaction READ COMMITTED. The server refuses that if another isolation is set and
-- the transaction has read something, or has a savepoint.
-- Locks: nothing. Returns: nothing.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: limit_waiting. Limits how long this transaction waits for a lock.
-- Locks: nothing. Returns: the limit before.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(limit)s, true)

-- name: _shorter. The limit that is given for a setting, or the connection's if that is shorter: the project's own, or
-- the heartbeat's. 0 is no limit.
CASE
    WHEN current_setting('{it}') <> '0' AND current_setting('{it}')::interval < %({it})s::text::interval
    THEN current_setting('{it}')
    ELSE %({it})s::text
END

-- name: idle_limit. Reads how long a transaction may do nothing, before it begins: a query in it would take the
-- snapshot, and the isolation could not be set any more.
-- Locks: nothing. Returns: the limit.
SELECT {shorter:idle_in_transaction_session_timeout}

-- name: bound_transaction. Limits how long this transaction may do nothing, and wait for a lock.
-- Locks: nothing. Returns: the limits.
SELECT
    set_config('idle_in_transaction_session_timeout', {shorter:idle_in_transaction_session_timeout}, true),
    set_config('lock_timeout', {shorter:lock_timeout}, true)

-- name: _worker. The worker of a statement that is marked, as a worker session names host and process.
substring(a.query FROM '^/\* django_mq (\S+) \*/')

-- name: end_stuck. Ends worker connections whose process takes no answer, or does not send the rest of a request. No
-- limit of the server ends these, and until then they keep what they have locked.
-- Locks: nothing. Reads the server's list of its processes; it is read to the end first, because a condition may be
-- asked before the others. Returns: the worker, for how many seconds, and whether its connection was ended.
WITH stuck AS MATERIALIZED (
    SELECT a.pid, {worker} AS worker, extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS seconds
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND {worker} IS NOT NULL
      AND a.state = 'active' AND a.wait_event_type = 'Client' AND pg_has_role(a.usesysid, 'USAGE')
      AND a.query_start < clock_timestamp() - %(seconds)s::float8 * interval '1 second'
)
SELECT worker, seconds, pg_terminate_backend(pid) FROM stuck

-- name: lock_holders. Names the transactions that have held a lock of a queue for a while: its claim lock, or the lock
-- of its limits. The server writes the number of the transaction into the row that it locks.
-- Locks: nothing. Reads two small tables and the server's lists. Returns: the queue, the worker's session, else its
-- host and process, else what the connection calls itself; the number of the server's process, and for how many seconds
-- it holds the lock.
SELECT q.name::text, coalesce(s.name, {worker}, nullif(a.application_name, ''), 'a connection without a name')::text, a.pid,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8
FROM (SELECT queue_id, xmax AS holder FROM django_mq_turn UNION ALL SELECT id, xmax FROM django_mq_queue) locked
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = locked.holder AND l.granted
JOIN pg_stat_activity a ON a.pid = l.pid AND a.pid <> pg_backend_pid()
JOIN django_mq_queue q ON q.id = locked.queue_id
LEFT JOIN django_mq_workersession s ON {worker} = s.host || ':' || s.pid
WHERE a.xact_start < clock_timestamp() - %(seconds)s::float8 * interval '1 second'
ORDER BY q.name

-- name: set_aside. Gives another name to a queue that is to be deleted: its own can be declared anew. Nothing is
-- published into it any more, but by statements that have read its name already.
-- Locks: the queue's row, which is locked. Index: the unique name. Returns: one row.
UPDATE django_mq_queue
SET name = %(ended)s, closed = %(closed)s, auto_delete = auto_delete OR %(closed)s, used_at = coalesce(used_at, created_at)
WHERE name = %(queue)s
RETURNING id

-- name: lock_messages. Waits for every open transaction that wrote messages, and blocks others.
-- Locks: the table against writing, until the transaction ends. Returns: nothing.
LOCK TABLE django_mq_message IN SHARE MODE

-- name: longest_transaction. Finds the oldest transaction that keeps a vacuum from removing rows.
-- Locks: nothing. Returns: its process, its age in seconds, and what the process calls itself; no row without one.
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.xact_start)::float8, coalesce(a.application_name, '')
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND a.backend_xmin IS NOT NULL AND a.xact_start IS NOT NULL
ORDER BY a.xact_start LIMIT 1

-- name: refused_sequences. Finds the sequences of messages and the history that the role may not use.
-- Locks: nothing. Reads catalogues only. Returns: their names.
SELECT pg_get_serial_sequence(t.name, 'id')
FROM (VALUES ('django_mq_message'), ('django_mq_history')) AS t(name)
WHERE NOT has_sequence_privilege(pg_get_serial_sequence(t.name, 'id'), 'USAGE')

-- name: _others_holding. Names the open transactions of others that hold a lock of a table or a sequence: one row each.
-- A transaction that was prepared for a two-phase commit has no process.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = {it}::regclass

-- name: writers. Names the open transactions of others that have written messages, or may have: a transaction that writes into a
-- table has locked it before the row gets its id, until the end of the transaction.
-- Locks: nothing. Index: none; reads the server's table of locks. Returns: one row per transaction.
{others_holding:'django_mq_message'} AND mode NOT IN ('AccessShareLock', 'RowShareLock')

-- name: arriving. Names the open transactions of others that may have been given an arrival number: each holds a lock
-- of the numbers' sequence to its end.
-- Locks: nothing. Index: none; reads the server's table of locks. Returns: one row per transaction.
{others_holding:pg_get_serial_sequence('django_mq_message', 'id')}

-- name: finishing. Names the open transactions of others that may have been given a number of the history: each holds a
-- lock of the numbers' sequence to its end.
-- Locks: nothing. Index: none; reads the server's table of locks. Returns: one row per transaction.
{others_holding:pg_get_serial_sequence('django_mq_history', 'id')}

-- name: begin_look. Ends the statements of this transaction after a time, and says whether it is the only one of a name
-- that looks.
-- Locks: an advisory lock of the name, until the transaction ends, unless another transaction holds it. Returns: whether
-- it has the lock, and the limit before.
SELECT pg_try_advisory_xact_lock(28019, hashtext(%(name)s)), current_setting('statement_timeout'),
    set_config('statement_timeout', %(limit)s, true)

-- name: end_look. Gives the statements of this transaction their limit back.
-- Locks: nothing. Returns: nothing that is used.
SELECT set_config('statement_timeout', %(before)s, true)
