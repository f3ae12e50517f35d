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
-- which bounds those that read, in milliseconds. Each server passes over what is written for the other.
-- Locks: nothing. Returns: nothing.
SET SESSION innodb_lock_wait_timeout = %(limit)s
    /*M!100100 , max_statement_time = %(statement_seconds)s */
    /*!80000 , max_execution_time = %(statement_milliseconds)s */

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
