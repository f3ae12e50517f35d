-- Removes claimed messages for good and remembers them in the history, where the queue keeps one.
-- Locks: the rows it removes. Index: the primary key. Fenced by session and claim token,
-- which only a claimed row has; to ask for the state as well would invite the planner to walk the
-- index of claimed rows, which is full of dead entries.
-- No join: planned for a batch of unknown size, it could compare every row with every other. IS TRUE
-- keeps the tokens in a hash table.
-- Returns: the ids that were still held.
WITH {settled}
SELECT id FROM gone
