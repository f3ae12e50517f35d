-- Makes publishers into a queue with rules wait for each other, so that they cannot overshoot.
-- Locks: the queue's row until the transaction ends; nothing of a queue without rules. The row alone: its
-- entry in the index of names is what publishers share, see append.sql.
-- Index: its unique name, then the primary key.
-- Returns: id, limits, overflow, key of last values, what it holds at most, and whether that figure is fresh.
{ruled}
