-- Limits how long this transaction waits for a lock.
-- Locks: nothing.
-- Returns: the limit before.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(limit)s, true)
