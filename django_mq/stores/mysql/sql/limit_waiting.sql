-- Limits how long this session waits for a lock.
-- Locks: nothing.
-- Returns: nothing.
SET SESSION innodb_lock_wait_timeout = %(limit)s
