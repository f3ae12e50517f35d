-- Asks how long this session waits for a lock.
-- Locks: nothing.
-- Returns: seconds.
SELECT @@innodb_lock_wait_timeout
