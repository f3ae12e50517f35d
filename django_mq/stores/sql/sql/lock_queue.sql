-- Makes publishers into a queue with rules wait for each other, so that they cannot overshoot.
-- Locks: the queue's row until the transaction ends; nothing of a queue without rules.
-- Index: its unique name.
-- Returns: id, limits, overflow, key of last values, what it holds at most, and whether that figure is fresh.
{ruled}
