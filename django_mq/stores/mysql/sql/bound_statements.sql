-- Ends any statement of this session that takes too long: on MariaDB in seconds, on MySQL, which
-- bounds those that read, in milliseconds. Each server passes over what is written for the other.
-- Locks: nothing.
-- Returns: nothing.
SET SESSION innodb_lock_wait_timeout = %(limit)s
    /*M!100100 , max_statement_time = %(statement_seconds)s */
    /*!80000 , max_execution_time = %(statement_milliseconds)s */
