-- Has the transaction see what is committed before each of its statements. Refused where the transaction is isolated
-- otherwise and has read something, or has a savepoint.
-- Locks: nothing.
-- Returns: nothing.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED
