-- name: variables. Asks for settings of this session that matter to queues; each server has its own name for one.
-- Locks: nothing. Returns: names and values.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation', 'sql_mode')

-- name: uptime. Asks how long the server has been running.
-- Locks: nothing. Returns: a name, and the seconds as text.
SHOW GLOBAL STATUS LIKE 'Uptime'

-- name: space. Reads the size of each of our tables on the disk, and how much of it is free.
-- Locks: nothing. Reads statistics only, which may be a day old on MySQL. Returns: table, bytes with indexes, free
-- bytes, rows by the statistics.
SELECT table_name, data_length + index_length, data_free, table_rows
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name LIKE 'django\_mq\_%%'
ORDER BY table_name

-- name: shape. Reads which columns and indexes our tables have.
-- Locks: nothing. Returns: table, and the name of a column or index.
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name LIKE 'django\_mq\_%%'
UNION
SELECT table_name, index_name FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name LIKE 'django\_mq\_%%'

-- name: see_committed. Lets the connection see what is committed, as it was opened to do.
-- Locks: nothing. Returns: nothing.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: see_unfinished. Lets the connection see what others have not committed.
-- Locks: nothing. Returns: nothing.
SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED

-- name: bound_statements. Ends any statement of this session that takes too long: on MariaDB in seconds, on MySQL,
-- which bounds those that read, in milliseconds. Ends the session if its process does not take an answer, or send the
-- rest of a request; on MariaDB also if nothing comes in a transaction. A shorter limit of the project's own is kept; 0
-- is no limit. Each server passes over what is written for the other.
-- Locks: nothing. Returns: nothing.
SET SESSION innodb_lock_wait_timeout = least(@@innodb_lock_wait_timeout, %(limit)s),
    net_write_timeout = least(@@net_write_timeout, %(idle)s),
    net_read_timeout = least(@@net_read_timeout, %(idle)s)
    /*M!100100 , max_statement_time = coalesce(
        least(nullif(@@max_statement_time, 0), %(statement_seconds)s), %(statement_seconds)s) */
    /*M!100300 , idle_transaction_timeout = coalesce(
        least(nullif(@@idle_transaction_timeout, 0), %(idle)s), %(idle)s) */
    /*!80000 , max_execution_time = coalesce(
        least(nullif(@@max_execution_time, 0), %(statement_milliseconds)s), %(statement_milliseconds)s) */

-- name: _own_lock. The name of the lock that the connection of a session holds. It ends with the connection.
concat('django_mq.', crc32(DATABASE()), '.', {it})

-- name: speak_for. Lets others know for which session this connection works.
-- Locks: the session's name, until the connection ends. Returns: nothing that is used.
SELECT get_lock({own_lock:%(session)s}, 0)

-- name: lock_holders. Names the worker sessions whose transaction has locked something, and whose connection has done
-- nothing else for a while. It needs the privilege PROCESS.
-- Locks: nothing. Returns: a queue of the session, the session's name, the number of its connection, and for how many
-- seconds the connection has been as it is.
SELECT json_unquote(json_extract(s.queues, '$[0]')), s.name, p.id, p.time
FROM django_mq_workersession s
JOIN information_schema.processlist p ON p.id = is_used_lock({own_lock:s.id})
JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id AND t.trx_rows_locked > 0
WHERE p.time >= %(seconds)s
ORDER BY s.name

-- name: limit_waiting. Limits how long this session waits for a lock.
-- Locks: nothing. Returns: nothing.
SET SESSION innodb_lock_wait_timeout = %(limit)s

-- name: waiting_limit. Asks how long this session waits for a lock.
-- Locks: nothing. Returns: seconds.
SELECT @@innodb_lock_wait_timeout

-- name: arriving. Reads the arrival numbers of a range that can be seen at this moment.
-- Locks: nothing. Index: the primary key. Returns: the numbers.
SELECT id FROM django_mq_message WHERE id > %(after)s AND id <= %(last)s

-- name: finishing. Reads the history's numbers of a range that can be seen at this moment.
-- Locks: nothing. Index: the primary key. Returns: the numbers.
SELECT id FROM django_mq_history WHERE id > %(after)s AND id <= %(last)s

-- name: _look. The name of the lock of what looks in a name.
concat('django_mq.look.', crc32(DATABASE()), '.', crc32(%(name)s))

-- name: take_look. Says whether this connection is the only one of a name that looks.
-- Locks: the name, until drop_look or the end of the connection. Returns: 1 if it has the lock.
SELECT get_lock({look}, 0)

-- name: drop_look. Lets another connection look.
-- Locks: nothing. Returns: nothing that is used.
SELECT release_lock({look})

-- name: begin_look. Ends the statements of this session that read after a time: see bound_statements.
-- Locks: nothing. Returns: nothing.
SET @mq_look = 1
    /*M!100100 , @mq_before = @@SESSION.max_statement_time, SESSION max_statement_time = %(seconds)s */
    /*!80000 , @mq_before = @@SESSION.max_execution_time, SESSION max_execution_time = %(milliseconds)s */

-- name: end_look. Gives the statements of this session their limit back.
-- Locks: nothing. Returns: nothing.
SET @mq_look = 0
    /*M!100100 , SESSION max_statement_time = @mq_before */
    /*!80000 , SESSION max_execution_time = @mq_before */
