-- Asks how the database keeps its journal.
-- Locks: nothing.
-- Returns: the mode.
PRAGMA journal_mode
