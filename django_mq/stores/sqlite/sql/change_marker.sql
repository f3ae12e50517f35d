-- Reads a number that moves when another connection commits.
-- Locks: nothing, reads nothing.
-- Returns: the number, which means something on this connection only.
PRAGMA data_version
