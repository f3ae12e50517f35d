-- Lets the connection see what is committed, as it was opened to do.
-- Locks: nothing.
-- Returns: nothing.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
