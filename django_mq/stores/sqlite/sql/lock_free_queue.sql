-- As lock_queue.sql: a database that locks no rows has none to leave alone.
-- Locks: the database for writing, until the transaction ends; nothing of a queue without rules.
-- Index: its unique name.
-- Returns: what lock_queue.sql returns.
{ruled}
