-- Asks how long the server has been running.
-- Locks: nothing.
-- Returns: a name, and the seconds as text.
SHOW GLOBAL STATUS LIKE 'Uptime'
