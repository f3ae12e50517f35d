-- Asks how transactions are isolated that do not say so themselves.
-- Locks: nothing.
-- Returns: the level's name.
SELECT current_setting('default_transaction_isolation')
