-- Reads the database's clock.
-- Locks: nothing.
-- Returns: the time.
SELECT {now}
