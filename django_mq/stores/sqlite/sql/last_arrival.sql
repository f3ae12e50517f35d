-- Asks for the last arrival number that was given. Who writes next has not begun.
-- Locks: nothing.
-- Returns: the number, 0 before the first.
SELECT coalesce({tail}, 0)
