-- Lets the connection see what others have not committed.
-- Locks: nothing.
-- Returns: nothing.
SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED
