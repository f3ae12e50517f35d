-- Asks for settings of this session that matter to queues; each server has its own name for one.
-- Locks: nothing.
-- Returns: names and values.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation', 'sql_mode')
