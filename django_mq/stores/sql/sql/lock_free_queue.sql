-- As lock_queue.sql, but leaves alone a queue that a publisher has locked: the publisher makes room itself.
-- Locks: the queue's row until the transaction ends, skipping a locked one; nothing of a queue without rules.
-- Index: its unique name.
-- Returns: what lock_queue.sql returns; no row if the queue is locked.
{ruled} SKIP LOCKED
